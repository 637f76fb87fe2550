import { Duration, Stack } from 'aws-cdk-lib';
import { AccessLogFormat } from 'aws-cdk-lib/aws-apigateway';
import {
  HttpApi,
  type HttpMethod,
  HttpNoneAuthorizer,
  HttpStage,
  type IHttpRouteAuthorizer,
  LogGroupLogDestination,
} from 'aws-cdk-lib/aws-apigatewayv2';
import { HttpIamAuthorizer } from 'aws-cdk-lib/aws-apigatewayv2-authorizers';
import { HttpLambdaIntegration } from 'aws-cdk-lib/aws-apigatewayv2-integrations';
import type { Function as LambdaFunction } from 'aws-cdk-lib/aws-lambda';
import { LogGroup, RetentionDays } from 'aws-cdk-lib/aws-logs';
import { Construct } from 'constructs';
import { type FunctionDefaults, NodeFunction } from './node-function.ts';
import type { DatabaseLogin, OutboxDatabase } from './outbox-database.ts';

export interface EventApiProps extends FunctionDefaults {
  /** Path of the file that exports `handler`, absolute or from where `cdk` is started. */
  readonly entry: string;
  /** Routes that the function knows, `METHOD /path`. Everything else reaches it as `$default`, for its own kind of 404 and 405. */
  readonly routes: readonly `${HttpMethod} /${string}`[];
  readonly database: OutboxDatabase;
  readonly login: DatabaseLogin;
  /** Who may call: `iam` (signed requests) or `open` (everybody who reaches it: with a database on this machine only, so in the local cloud). */
  readonly access: 'iam' | 'open';
  /**
   * Requests that are in the database at once, each on a connection of its own. The server refuses more, and such a request is answered
   * with 503 and `Retry-After`: a rush of callers takes no connection from the relay or the consumers. Default: 40.
   */
  readonly connections?: number;
  readonly environment?: Readonly<Record<string, string>>;
}

/** An HTTP API whose function writes business rows and their events in one transaction. */
export class EventApi extends Construct {
  readonly api: HttpApi;
  readonly function: LambdaFunction;
  readonly url: string;

  constructor(scope: Construct, id: string, props: EventApiProps) {
    super(scope, id);
    if (props.access === 'open' && !props.database.isLocal) {
      throw new RangeError(
        `${this.node.path}: access is open, and the database is not on this machine. Anybody could write. Give access: 'iam'.`,
      );
    }
    this.function = new NodeFunction(this, 'Function', {
      ...props,
      serviceName: 'api',
      description: 'Answers HTTP requests; writes rows and events in one transaction',
      // API Gateway waits 30 s; a function that works longer works for nobody.
      timeout: Duration.seconds(25),
      memorySize: 1024,
      environment: { OUTBOX_INSTALLATION: Stack.of(this).stackName, ...props.environment },
    });
    props.database.connect(this.function, props.login, props.connections ?? 40);

    const authorizer: IHttpRouteAuthorizer =
      props.access === 'iam' ? new HttpIamAuthorizer() : new HttpNoneAuthorizer();
    const integration = new HttpLambdaIntegration('Integration', this.function);
    this.api = new HttpApi(this, 'Api', {
      createDefaultStage: false,
      defaultAuthorizer: authorizer,
      defaultIntegration: integration,
    });
    for (const route of props.routes) {
      const [method, path] = route.split(' ') as [HttpMethod, string];
      this.api.addRoutes({ path, methods: [method], integration });
    }
    const stage = new HttpStage(this, 'Stage', {
      httpApi: this.api,
      stageName: '$default',
      autoDeploy: true,
      throttle: { rateLimit: 500, burstLimit: 1000 },
      accessLogSettings: {
        destination: new LogGroupLogDestination(
          new LogGroup(this, 'AccessLogs', { retention: props.logRetention ?? RetentionDays.ONE_MONTH }),
        ),
        // The route and not the path: what callers put into a path stays out of the logs.
        format: AccessLogFormat.custom(
          JSON.stringify({
            requestId: '$context.requestId',
            time: '$context.requestTime',
            route: '$context.routeKey',
            status: '$context.status',
            latencyMs: '$context.responseLatency',
            error: '$context.integrationErrorMessage',
          }),
        ),
      },
    });
    this.url = stage.url;
  }
}
