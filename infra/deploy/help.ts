const TARGET = `  --stage <name>      dev or prod
  --account <digits>  the AWS account, and
  --region <name>     the region: both always said, never guessed from a profile
  -c name=value       a setting, as often as needed: mailProvider, database, network, migrations,
                      clearValuesFor, breakGlass, restoredCluster
                      (docs/deploy.md#settings); cdk.json may hold them under "context" instead
  --profile <name>    the AWS profile whose credentials are used
  --dry-run           prints the command lines and runs none`;

export const DEPLOY_HELP = `Deploys both stacks of a stage to AWS: npm run deploy -- --stage dev --account … --region … -c mailProvider=https://…

Builds, shows what would change (cdk diff), asks, and deploys exactly what was shown. Settings are checked before anything is built.

${TARGET}
  --diff              shows what would change, and ends
  --yes               does not ask, as a pipeline needs it
  --help              this text

Every other word goes to cdk deploy as it is, such as --outputs-file out.json, --no-rollback or --concurrency 2.

Exit code: 0 done, 1 failed or not confirmed, 2 wrong use (nothing was built).

Examples:
  npm run deploy -- --stage dev --account 111122223333 --region eu-central-1 -c mailProvider=https://mail.example.com
  npm run deploy -- --stage prod --account 111122223333 --region eu-central-1 -c mailProvider=https://mail.example.com --diff
`;

export const DESTROY_HELP = `Deletes both stacks of a stage: npm run destroy -- --stage dev --account … --region …

Says first what must be emptied, what goes and what stays, then asks for the stage's name. A stage that keeps its data (prod) is not
deleted by a command: you get the list of what to do by hand.

${TARGET}
  --yes               does not ask
  --help              this text

Every other word goes to cdk destroy as it is. Exit code: 0 done, 1 failed, refused or not confirmed, 2 wrong use.
`;
