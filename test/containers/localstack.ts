import { LocalstackContainer } from '@testcontainers/localstack';
import { getContainerRuntimeClient } from 'testcontainers';

export interface LocalStackContainer {
  readonly endpoint: string;
  stop(): Promise<void>;
}

/** LocalStack as a container; null where no Docker engine answers. */
export async function startLocalStackContainer(
  image: string,
  services: readonly string[],
): Promise<LocalStackContainer | null> {
  try {
    await getContainerRuntimeClient();
  } catch {
    return null;
  }
  const container = await new LocalstackContainer(image).withEnvironment({ SERVICES: services.join(',') }).start();
  return {
    endpoint: container.getConnectionUri(),
    stop: async () => {
      await container.stop();
    },
  };
}
