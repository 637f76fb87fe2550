import { App } from 'aws-cdk-lib';
import { ShopStack } from './shop-stack.ts';

new ShopStack(new App(), 'Shop');
