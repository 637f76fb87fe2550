// What is used of the packages that are installed at their first use, so that the code can be checked without them.

declare module 'testcontainers' {
  export function getContainerRuntimeClient(): Promise<unknown>;
}

declare module '@testcontainers/localstack' {
  interface Started {
    getConnectionUri(): string;
    stop(): Promise<unknown>;
  }

  export class LocalstackContainer {
    constructor(image: string);
    withEnvironment(environment: Readonly<Record<string, string>>): this;
    start(): Promise<Started>;
  }
}
