import { programCommit, programVersion } from '../program-version.ts'

/** The release of Kubernetes whose API this is. Clients warn if it is far from their own. */
const kubernetes = Object.freeze({ major: '1', minor: '34' })

/** `GET /version`: Kubernetes' version.Info. Its clients require every field. */
export function versionInfo(): object {
  const { major, minor } = kubernetes
  return {
    major,
    minor,
    gitVersion: `v${major}.${minor}.0+setpoint.${programVersion()}`,
    gitCommit: programCommit(),
    gitTreeState: '',
    buildDate: '',
    goVersion: '',
    compiler: `node ${process.version}`,
    platform: `${process.platform}/${process.arch}`,
  }
}
