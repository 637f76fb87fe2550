export { emfMetrics, type EmfOptions } from './emf.ts';
export { type Log, type LogFields, silentLog } from './log.ts';
export { type Metrics, type MetricUnit, noMetrics } from './metrics.ts';
export { isTraceparent, traceparentOfXray, xrayTraceHeader } from './trace-context.ts';
export { activeTraceparent, inSpan, linkLater, type LongSpan, startSpan } from './tracing.ts';
