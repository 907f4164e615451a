import type { LabelSelector, ObjectMeta } from 'kubernetes-types/meta/v1.js'

/** The part of the Prometheus Operator's ServiceMonitor (API reference, v0.93) that the chart uses. */
export interface ServiceMonitor {
  apiVersion: 'monitoring.coreos.com/v1'
  kind: 'ServiceMonitor'
  metadata: ObjectMeta
  spec: {
    selector: LabelSelector
    endpoints: {
      port?: string
      path?: string
      scheme?: 'http' | 'https'
      interval?: string
      authorization?: { type?: string; credentials?: SecretKeySelector }
      tlsConfig?: { serverName?: string; ca?: { secret?: SecretKeySelector } }
    }[]
  }
}

interface SecretKeySelector {
  name?: string
  key: string
}
