import { dirname } from 'node:path';
import { AssetHashType, DockerImage, Duration } from 'aws-cdk-lib';
import { Role, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import {
  Architecture,
  Code,
  Function as LambdaFunction,
  type FunctionProps,
  LoggingFormat,
  Runtime,
  Tracing,
} from 'aws-cdk-lib/aws-lambda';
import { LogGroup, RetentionDays } from 'aws-cdk-lib/aws-logs';
import type { Construct } from 'constructs';
import { type Beside, bundle, type Entry, pathOf } from './bundle.ts';
import { environmentComplaints } from './environment-size.ts';
import { allowNetworkInterfaces, type FunctionNetwork } from './function-network.ts';

/** What every function of an installation shares. */
export interface FunctionDefaults {
  /** How long log lines are kept. Default: one month. */
  readonly logRetention?: RetentionDays;
  /** `DEBUG`, `INFO`, `WARN` or `ERROR`. Default: `INFO`. */
  readonly logLevel?: string;
  /**
   * Lets X-Ray record invocations: a sample of them, which costs by the trace. Trace contexts travel either way. Default: false.
   * For spans of OpenTelemetry see docs/observability.md.
   */
  readonly tracing?: boolean;
  /** The VPC that the functions run in. Default: none, which is for a database that is reached over the internet. */
  readonly network?: FunctionNetwork | undefined;
}

export interface NodeFunctionProps extends FunctionDefaults {
  /** The file that exports `handler`, or one of the library's functions. */
  readonly entry: Entry;
  /** The name in log lines and traces. */
  readonly serviceName: string;
  readonly description: string;
  /** Default: one that CloudFormation makes up. */
  readonly functionName?: string;
  readonly timeout: Duration;
  /** Megabytes; 1,769 are one virtual CPU. Default: 512. */
  readonly memorySize?: number;
  readonly environment?: Readonly<Record<string, string>>;
  readonly beside?: Beside;
  /** Invoked asynchronously by a schedule: a late start is worthless, the next one comes within the minute anyway. */
  readonly scheduled?: boolean;
  /** Concurrency of the account that is kept for this function alone, and that it cannot go beyond. Default: none. */
  readonly reservedConcurrency?: number | undefined;
}

/** A scheduled start that could not run within a minute is dropped (a throttled one would be retried for six hours). */
export const SCHEDULE_EVENT_AGE = Duration.seconds(60);

/**
 * A Node.js function with what each of ours has: its own role that may write to its own log group and nothing else, a log
 * group with a retention, one ES module with the AWS SDK bundled in, source maps beside it.
 *
 * The SDK is bundled because the runtime's own costs more at cold start (it is not minified and changes under us).
 */
export class NodeFunction extends LambdaFunction {
  constructor(scope: Construct, id: string, props: NodeFunctionProps) {
    const logGroup = new LogGroup(scope, `${id}Logs`, { retention: props.logRetention ?? RetentionDays.ONE_MONTH });
    const role = new Role(scope, `${id}Role`, {
      assumedBy: new ServicePrincipal('lambda.amazonaws.com'),
      description: `What ${props.serviceName} may do`,
    });
    logGroup.grantWrite(role);
    if (props.network !== undefined) allowNetworkInterfaces(role);
    super(scope, id, {
      code: code(props),
      handler: 'index.handler',
      description: props.description,
      ...(props.functionName === undefined ? {} : { functionName: props.functionName }),
      runtime: Runtime.NODEJS_24_X,
      architecture: Architecture.ARM_64,
      timeout: props.timeout,
      memorySize: props.memorySize ?? 512,
      role,
      logGroup,
      loggingFormat: LoggingFormat.TEXT,
      ...placedIn(props.network),
      ...(props.tracing === true ? { tracing: Tracing.ACTIVE } : {}),
      environment: {
        // A stack trace of minified code helps nobody. No measurable cost at a cold start (relay: 135 ms with, 137 without).
        NODE_OPTIONS: '--enable-source-maps',
        LOG_LEVEL: props.logLevel ?? 'INFO',
        POWERTOOLS_SERVICE_NAME: props.serviceName,
        ...props.environment,
      },
      ...(props.reservedConcurrency !== undefined && { reservedConcurrentExecutions: props.reservedConcurrency }),
      ...(props.scheduled === true ? { maxEventAge: SCHEDULE_EVENT_AGE, retryAttempts: 0 } : {}),
    });
    // Logins and columns are added as the stack is built, and each adds to a variable.
    this.node.addValidation({ validate: () => environmentComplaints(this) });
  }
}

function placedIn(network: FunctionNetwork | undefined): Pick<FunctionProps, 'vpc' | 'vpcSubnets' | 'securityGroups'> {
  if (network === undefined) return {};
  const { vpc, subnets, securityGroups } = network;
  return { vpc, vpcSubnets: { subnets: [...subnets] }, securityGroups: [...securityGroups] };
}

/** Bundled while the stack is synthesised; the content's hash decides whether it is deployed again. */
function code({ entry, beside }: NodeFunctionProps): Code {
  return Code.fromAsset(dirname(pathOf(entry)), {
    assetHashType: AssetHashType.OUTPUT,
    bundling: {
      // CDK wants to know them; they never run, because esbuild is installed with the project. What has the same folder and command is bundled once: so the
      // command names what is bundled, and what goes beside.
      image: DockerImage.fromRegistry('unused'),
      command: [JSON.stringify([entry, beside])],
      local: {
        tryBundle(outputDirectory) {
          bundle(entry, outputDirectory, beside);
          return true;
        },
      },
    },
  });
}
