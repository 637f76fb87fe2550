// The example's stack, without CloudFormation's checks of it, which take longest.
import { App } from 'aws-cdk-lib';
import { ShopStack } from './dist/infra/shop-stack.js';

const app = new App({ outdir: 'cdk-import', analyticsReporting: false, builtinCloudFormationValidation: false });
new ShopStack(app, 'Shop');
app.synth();
