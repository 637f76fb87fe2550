import { Ajv2020, type AnySchemaObject } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import type { Context } from 'aws-lambda';
import type pg from 'pg';
import { v7 } from 'uuid';
import { expect } from 'vitest';
import { type ApiHandler, createHandler } from '../../../functions/sample/api/handler.ts';
import { openApi } from '../../../functions/sample/api/openapi.ts';
import type { CallerRules } from '../../../functions/sample/api/caller.ts';
import type { HttpEvent } from '../../../functions/sample/api/request.ts';
import { catalogue } from '../../../functions/sample/catalogue/index.ts';
import { createOutbox } from '../../../shared/outbox/index.ts';
import type { Erasure, IndexKeys, Keyring } from '../../../shared/sealing/index.ts';
import type { Log } from '../../../shared/telemetry/index.ts';
import { sampleKeyring, sampleKeys } from '../../support/sample.ts';

interface Call {
  readonly headers?: Readonly<Record<string, string>>;
  /** Sent as JSON; a string or bytes as they are. */
  readonly body?: unknown;
  /** ARN of whoever has signed the request. */
  readonly signedBy?: string;
}

interface Reply {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Record<string, unknown>;
}

interface DocumentedResponse {
  readonly headers?: Readonly<Record<string, { readonly required?: boolean; readonly schema: AnySchemaObject }>>;
  readonly content: Readonly<Record<string, { readonly schema: AnySchemaObject }>>;
}

/** Every documented answer, as `issueInvoice 201`. */
export const documented = new Map<string, DocumentedResponse>();
/** Documented operations by the key that the gateway gives their route. */
export const operations = new Map<string, string>();
for (const [template, methods] of Object.entries(openApi.paths)) {
  for (const [method, operation] of Object.entries(methods)) {
    operations.set(`${method.toUpperCase()} ${template}`, operation.operationId);
    for (const [status, response] of Object.entries(operation.responses)) {
      documented.set(`${operation.operationId} ${status}`, response as DocumentedResponse);
    }
  }
}

const ajv = new Ajv2020({ strict: false, allErrors: true });
addFormats.default(ajv);
ajv.addSchema({ ...openApi, $id: 'openapi' });

/** The gateway's part: which route a path belongs to. */
function gatewayEvent(method: string, path: string, call: Call = {}): HttpEvent {
  const key = [...operations.keys()].find((route) => {
    const [wanted, template] = route.split(' ') as [string, string];
    return wanted === method && new RegExp(`^${template.replaceAll(/\{\w+\}/g, '[^/]+')}$`).test(path);
  });
  const [, , id] = path.split('/');
  const { body, headers = {}, signedBy } = call;
  return {
    routeKey: key ?? '$default',
    rawPath: path,
    headers,
    ...(key?.includes('{id}') === true && id !== undefined ? { pathParameters: { id: decodeURIComponent(id) } } : {}),
    ...(body === undefined ? {} : { body: bodyText(body) }),
    isBase64Encoded: body instanceof Uint8Array,
    requestContext: {
      http: { method },
      ...(signedBy === undefined ? {} : { authorizer: { iam: { userArn: signedBy } } }),
    },
  };
}

function bodyText(body: unknown): string {
  if (body instanceof Uint8Array) return Buffer.from(body).toString('base64');
  return typeof body === 'string' ? body : JSON.stringify(body);
}

export interface Api {
  /** Calls the handler as the gateway would, and holds the answer against the OpenAPI document. */
  call(method: string, path: string, call?: Call): Promise<Reply>;
  /** `POST` of JSON with a fresh idempotency key, or the one given. */
  post(path: string, body: unknown, headers?: Readonly<Record<string, string>>): Promise<Reply>;
  readonly log: readonly string[];
  /** Answers seen so far, as in `documented`. */
  readonly seen: ReadonlySet<string>;
}

export interface ApiOptions {
  readonly lambdaTrace?: () => string | undefined;
  /** Default: one of its own on the vault of the pool's database. */
  readonly keyring?: Keyring;
  /** Default: nobody sees personal values whole. */
  readonly callers?: CallerRules;
  /** Default: with the log of the test file. */
  readonly erasure?: Erasure;
  readonly indexKeys?: IndexKeys;
  /** Default: what `Api.log` shows. */
  readonly log?: Log;
}

export function sampleApi(pool: pg.Pool, options: ApiOptions = {}): Api {
  const { lambdaTrace = () => undefined, keyring = sampleKeyring(pool), callers = { seeClearValues: [] } } = options;
  const log: string[] = [];
  const seen = new Set<string>();
  const write = (message: string, fields?: unknown): void => void log.push(JSON.stringify({ message, fields }));
  const handler: ApiHandler = createHandler({
    pool,
    outbox: createOutbox({ catalogue, keyring }),
    keyring,
    ...sampleKeys(pool),
    ...(options.erasure && { erasure: options.erasure }),
    ...(options.indexKeys && { indexKeys: options.indexKeys }),
    callers,
    log: options.log ?? { debug: write, info: write, warn: write, error: write },
    newId: () => v7(),
    lambdaTrace,
  });
  const api: Api = {
    log,
    seen,
    async call(method, path, call) {
      const event = gatewayEvent(method, path, call);
      const result = await handler(event, {} as Context);
      const reply = {
        status: result.statusCode,
        headers: result.headers,
        body: JSON.parse(result.body) as Record<string, unknown>,
      };
      const operation = operations.get(event.routeKey);
      if (operation !== undefined) {
        seen.add(`${operation} ${reply.status}`);
        checkReply(`${operation} ${reply.status}`, reply);
      }
      return reply;
    },
    post: (path, body, headers) =>
      api.call('POST', path, {
        body,
        headers: { 'content-type': 'application/json', 'idempotency-key': v7(), ...headers },
      }),
  };
  return api;
}

function checkReply(name: string, reply: Reply): void {
  const response = documented.get(name);
  expect(response, `${name} is documented`).toBeDefined();
  const type = reply.headers['content-type'] ?? 'none';
  const content = response?.content[type];
  expect(content, `${name} is documented as ${type}`).toBeDefined();
  const schema = content?.schema ?? {};
  const resolved = typeof schema['$ref'] === 'string' ? { $ref: `openapi${schema['$ref']}` } : schema;
  const validate = ajv.compile(resolved);
  expect(validate(reply.body) ? [] : validate.errors, `${name} has the documented body`).toEqual([]);
  for (const [header, { required, schema: of }] of Object.entries(response?.headers ?? {})) {
    const value = reply.headers[header.toLowerCase()];
    if (required === true) expect(value, `${name} has the header ${header}`).toBeDefined();
    if (value !== undefined) expect(ajv.validate(of, value), `${name} has the documented ${header}`).toBe(true);
  }
  if (reply.status >= 400) expect(reply.body).toMatchObject({ status: reply.status });
}
