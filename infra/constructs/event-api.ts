import { Duration } from 'aws-cdk-lib';
import { AccessLogFormat } from 'aws-cdk-lib/aws-apigateway';
import {
  type CfnStage,
  HttpApi,
  type HttpMethod,
  HttpNoneAuthorizer,
  type HttpRoute,
  HttpStage,
  type IHttpRouteAuthorizer,
  LogGroupLogDestination,
} from 'aws-cdk-lib/aws-apigatewayv2';
import { HttpIamAuthorizer } from 'aws-cdk-lib/aws-apigatewayv2-authorizers';
import { HttpLambdaIntegration } from 'aws-cdk-lib/aws-apigatewayv2-integrations';
import type { IGrantable } from 'aws-cdk-lib/aws-iam';
import type { Function as LambdaFunction } from 'aws-cdk-lib/aws-lambda';
import { LogGroup, RetentionDays } from 'aws-cdk-lib/aws-logs';
import { Construct } from 'constructs';
import { ACCESS_LOG } from './access-log.ts';
import { type FunctionDefaults, NodeFunction } from './node-function.ts';
import type { DatabaseLogin, OutboxDatabase } from './outbox-database.ts';

export interface EventApiProps extends FunctionDefaults {
  /** Path of the file that exports `handler`, absolute or from where `cdk` is started. */
  readonly entry: string;
  /** Routes that the function knows, `METHOD /path`. Everything else reaches it as `$default`, for its own kind of 404 and 405. */
  readonly routes: readonly `${HttpMethod} /${string}`[];
  readonly database: OutboxDatabase;
  /** The `Installation` dimension of its metrics, as `Outbox.installation`. Default: that of the `Outbox` that shares `database`, else the stack's name. */
  readonly installation?: string;
  readonly login: DatabaseLogin;
  /** Who may call: `iam` (signed requests) or `open` (everybody who reaches it: with a database on this machine only, so in the local cloud). */
  readonly access: 'iam' | 'open';
  /**
   * Requests that are in the database at once, each on a connection of its own. The server refuses more, and such a request is answered
   * with 503 and `Retry-After`: a rush of callers takes no connection from the relay or the consumers. Default: 40.
   */
  readonly connections?: number;
  readonly environment?: Readonly<Record<string, string>>;
  /** Routes that take fewer requests than the 500 a second of the others; what is more is answered with 429. */
  readonly limits?: Readonly<Record<string, { readonly perSecond: number; readonly burst: number }>>;
}

/** An HTTP API whose function writes business rows and their events in one transaction. */
export class EventApi extends Construct {
  readonly api: HttpApi;
  readonly function: LambdaFunction;
  readonly url: string;
  private readonly routes = new Map<string, HttpRoute>();

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
      environment: {
        OUTBOX_INSTALLATION: props.installation ?? props.database.installationFor(this),
        ...props.environment,
      },
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
      const [added] = this.api.addRoutes({ path, methods: [method], integration });
      if (added !== undefined) this.routes.set(route, added);
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
        format: AccessLogFormat.custom(JSON.stringify(ACCESS_LOG)),
      },
    });
    this.limit(stage, props.limits ?? {});
    this.url = stage.url;
  }

  /**
   * Lets somebody call these routes, and no others of the API. Only where requests are signed.
   *
   * @throws RangeError for a route that the API does not have
   */
  grantCall(grantee: IGrantable, ...routes: readonly string[]): void {
    for (const route of routes) this.routeOf(route).grantInvoke(grantee);
  }

  private limit(stage: HttpStage, limits: NonNullable<EventApiProps['limits']>): void {
    const settings = Object.entries(limits).map(([route, { perSecond, burst }]) => {
      // The stage names routes that must be there before.
      stage.node.addDependency(this.routeOf(route));
      return [route, { ThrottlingRateLimit: perSecond, ThrottlingBurstLimit: burst }] as const;
    });
    if (settings.length === 0) return;
    (stage.node.defaultChild as CfnStage).routeSettings = Object.fromEntries(settings);
  }

  private routeOf(route: string): HttpRoute {
    const found = this.routes.get(route);
    if (found !== undefined) return found;
    throw new RangeError(
      `${this.node.path}: there is no route "${route}". It has ${[...this.routes.keys()].join(', ')}.`,
    );
  }
}
