/** What the gateway writes of a request. The route and not the path: what callers put into a path stays out of the logs. */
export const ACCESS_LOG = {
  requestId: '$context.requestId',
  time: '$context.requestTime',
  route: '$context.routeKey',
  status: '$context.status',
  latencyMs: '$context.responseLatency',
  error: '$context.integrationErrorMessage',
} as const;
