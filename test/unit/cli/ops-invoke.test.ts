import { InvokeCommand, LambdaClient, TooManyRequestsException } from '@aws-sdk/client-lambda';
import { GetCallerIdentityCommand, STSClient } from '@aws-sdk/client-sts';
import { mockClient } from 'aws-sdk-client-mock';
import { afterAll, beforeEach, describe, expect, it } from 'vitest';
import { targetOf } from '../../../cli/cloud/target.ts';
import { operatorOf } from '../../../cli/ops/invoke.ts';

const lambda = mockClient(LambdaClient);
const sts = mockClient(STSClient);
// Other files share the classes of the SDK.
afterAll(() => {
  for (const mock of [lambda, sts]) mock.restore();
});
const CALLER = 'arn:aws:sts::111122223333:assumed-role/on-call/ada';

beforeEach(() => {
  lambda.reset();
  sts.reset();
  sts.on(GetCallerIdentityCommand).resolves({ Arn: CALLER });
});

const payload = (value: unknown): never => Buffer.from(JSON.stringify(value)) as never;
const DONE = { ok: true, act: '1', result: {} };

function operator(by?: string) {
  return operatorOf(targetOf({ stack: 'shop', region: 'eu-west-1' }, {}), by);
}

const ask = async (by?: string) =>
  operator(by).invoke({ command: 'redrive', arguments: { position: '1' }, reason: 'r' });
const sent = () =>
  lambda.commandCalls(InvokeCommand).map(({ args: [{ input }] }) => ({
    name: input.FunctionName,
    request: JSON.parse(input.Payload as unknown as string) as unknown,
  }));

describe('a request', () => {
  it('goes to the function of the stack, and says who STS says we are', async () => {
    lambda.on(InvokeCommand).resolves({ Payload: payload(DONE) });
    expect(await ask()).toEqual(DONE);
    const request = { command: 'redrive', arguments: { position: '1' }, reason: 'r', by: CALLER };
    expect(sent()).toEqual([{ name: 'shop-operator', request }]);
  });

  it('asks STS once, and not at all where it is said who we are', async () => {
    lambda.on(InvokeCommand).resolves({ Payload: payload(DONE) });
    const one = operator();
    for (let n = 0; n < 3; n += 1) await one.invoke({ command: 'status', arguments: {} });
    expect(sts.calls()).toHaveLength(1);
    await ask('pipeline 17');
    expect(sts.calls()).toHaveLength(1);
    expect(sent().at(-1)?.request).toMatchObject({ by: 'pipeline 17' });
  });

  it.each([
    ['Lambda refuses it', new TooManyRequestsException({ message: 'slow', $metadata: { httpStatusCode: 429 } })],
    ['nobody listens', Object.assign(new Error('connect'), { code: 'ECONNREFUSED' })],
    ['there are no credentials', Object.assign(new Error('none'), { name: 'CredentialsProviderError' })],
  ])('that never began because %s: nothing was changed', async (_, error) => {
    lambda.on(InvokeCommand).rejects(error);
    await expect(ask()).rejects.toMatchObject({
      code: 'OPERATOR_UNREACHABLE',
      message: expect.stringContaining('Nothing was changed'),
    });
  });

  it('is not sent without knowing who we are', async () => {
    sts.on(GetCallerIdentityCommand).rejects(Object.assign(new Error('no'), { name: 'ExpiredToken' }));
    await expect(ask()).rejects.toMatchObject({ code: 'OPERATOR_UNREACHABLE' });
    expect(sent()).toEqual([]);
  });

  it.each([
    ['the connection was cut', Object.assign(new Error('cut'), { code: 'ECONNRESET' })],
    ['no answer came in time', Object.assign(new Error('late'), { name: 'TimeoutError' })],
    ['Lambda broke', Object.assign(new Error('broke'), { $metadata: { httpStatusCode: 502 } })],
  ])('of which nobody knows because %s: it says so, and is not repeated', async (_, error) => {
    lambda.on(InvokeCommand).rejects(error);
    await expect(ask()).rejects.toMatchObject({
      code: 'OPERATOR_CUT_OFF',
      message: expect.stringMatching(/not known whether it happened.*acts list/),
    });
    expect(sent()).toHaveLength(1);
  });

  it('whose function died says so with the kind of its error, never its message', async () => {
    lambda.on(InvokeCommand).resolves({
      FunctionError: 'Unhandled',
      Payload: payload({ errorType: 'Runtime.ExitError', errorMessage: 'canary' }),
    });
    const ended = ask();
    await expect(ended).rejects.toMatchObject({
      code: 'OPERATOR_CUT_OFF',
      message: expect.stringContaining('Runtime.ExitError'),
    });
    await expect(ended).rejects.not.toMatchObject({ message: expect.stringContaining('canary') });
  });
});
