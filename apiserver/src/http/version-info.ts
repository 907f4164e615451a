import { programVersion } from '../program-version.ts'

/** `GET /version`: Kubernetes' version.Info. */
export function versionInfo(): object {
  const version = programVersion()
  const [major = '0', minor = '0'] = version.split('.')
  return {
    major,
    minor,
    gitVersion: `v${version}`,
    platform: `${process.platform}/${process.arch}`,
    runtime: `node ${process.version}`,
  }
}
