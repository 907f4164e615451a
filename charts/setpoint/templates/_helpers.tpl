{{- define "setpoint.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- /* At most 40 characters: names of pods, with what is appended, have to fit into 63. */ -}}
{{- define "setpoint.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains (include "setpoint.name" .) .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "setpoint.name" .) | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "setpoint.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "setpoint.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- /* (list $ component) */ -}}
{{- define "setpoint.selectorLabels" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: {{ include "setpoint.name" $root }}
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end -}}

{{- /* (dict "root" $ "component" component "labels" more "annotations" more): of an object, besides its name. */ -}}
{{- define "setpoint.metadata" -}}
{{- $v := .root.Values -}}
{{- $labels := include "setpoint.selectorLabels" (list .root .component) | fromYaml -}}
{{- $_ := set $labels "app.kubernetes.io/version" .root.Chart.AppVersion -}}
{{- $_ := set $labels "app.kubernetes.io/managed-by" .root.Release.Service -}}
{{- $_ := set $labels "helm.sh/chart" (printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_") -}}
labels: {{- merge $labels (default dict .labels) $v.commonLabels | toYaml | nindent 2 }}
{{- with merge dict (default dict .annotations) $v.commonAnnotations }}
annotations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- /*
(list $ component podLabels). Without the chart's version, which alone is no reason to replace pods.
*/ -}}
{{- define "setpoint.podLabels" -}}
{{- $root := index . 0 -}}
{{- $own := include "setpoint.selectorLabels" (list $root (index . 1)) | fromYaml -}}
{{- merge $own (index . 2) $root.Values.commonLabels | toYaml -}}
{{- end -}}

{{- /* (list $ image): an image as the values describe it. */ -}}
{{- define "setpoint.image" -}}
{{- $root := index . 0 -}}
{{- $image := index . 1 -}}
{{- with default $image.registry $root.Values.global.imageRegistry }}{{ . }}/{{ end -}}
{{- $image.repository -}}
{{- if $image.digest }}@{{ $image.digest }}{{ else }}:{{ default $root.Chart.AppVersion $image.tag }}{{ end -}}
{{- end -}}

{{- define "setpoint.tokensSecret" -}}
{{- default (printf "%s-tokens" (include "setpoint.fullname" .)) .Values.access.existingSecret -}}
{{- end -}}

{{- /* The group that may issue tokens of the service account of the controllers. */ -}}
{{- define "setpoint.tokenIssuers" -}}
setpoint:token-issuers:{{ replace "/" ":" .Values.controllers.serviceAccount }}
{{- end -}}

{{- /* The flags for OpenID Connect that have a value: a mapping as YAML. */ -}}
{{- define "setpoint.oidcFlags" -}}
{{- $oidc := .Values.access.oidc -}}
{{- range $flag, $key := dict "issuer" "issuer" "audience" "audience" "username-claim" "usernameClaim" "username-prefix" "usernamePrefix" "groups-claim" "groupsClaim" "groups-prefix" "groupsPrefix" }}
{{- with get $oidc $key }}
oidc-{{ $flag }}: {{ . | quote }}
{{- end }}
{{- end }}
{{- if $oidc.caSecretName }}
oidc-ca: /etc/setpoint/oidc-ca/ca.crt
{{- end }}
{{- end -}}

{{- define "setpoint.replicas" -}}
{{- if eq .Values.store "embedded" -}}1{{- else -}}{{ default 2 .Values.apiserver.replicas }}{{- end -}}
{{- end -}}

{{- define "setpoint.scheme" -}}
{{- if .Values.tls.secretName -}}https{{- else -}}http{{- end -}}
{{- end -}}

{{- /* Without a slash at its end, so that paths are appended. */ -}}
{{- define "setpoint.basePath" -}}
{{- trimSuffix "/" .Values.basePath -}}
{{- end -}}

{{- define "setpoint.serverUrl" -}}
{{ include "setpoint.scheme" . }}://{{ include "setpoint.fullname" . }}.{{ .Release.Namespace }}.svc:{{ .Values.service.port }}{{ include "setpoint.basePath" . }}
{{- end -}}

{{- define "setpoint.etcdName" -}}
{{ include "setpoint.fullname" . }}-etcd
{{- end -}}

{{- /* Of the chart's own members, by which they and the servers find and check each other: a list as YAML. */ -}}
{{- define "setpoint.etcdHosts" -}}
{{- $name := include "setpoint.etcdName" . -}}
{{- range $i := until (int .Values.etcd.bundled.replicas) }}
- {{ $name }}-{{ $i }}.{{ $name }}.{{ $.Release.Namespace }}.svc
{{- end }}
{{- end -}}

{{- define "setpoint.etcdEndpoints" -}}
{{- if .Values.etcd.endpoints -}}
{{- join "," .Values.etcd.endpoints -}}
{{- else -}}
{{- range $i, $host := include "setpoint.etcdHosts" . | fromYamlArray -}}
{{- if $i -}},{{- end -}}
https://{{ $host }}:2379
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* Secrets of certificates of the chart's own etcd. */ -}}
{{- define "setpoint.etcdMemberSecret" -}}
{{- default (printf "%s-member" (include "setpoint.etcdName" .)) .Values.etcd.bundled.tls.memberSecretName -}}
{{- end -}}

{{- define "setpoint.etcdClientSecret" -}}
{{- default (printf "%s-client" (include "setpoint.etcdName" .)) .Values.etcd.bundled.tls.clientSecretName -}}
{{- end -}}

{{- /* How the servers come to etcd, in the form of etcd.tls. */ -}}
{{- define "setpoint.etcdTls" -}}
{{- if .Values.etcd.endpoints -}}
{{- toYaml .Values.etcd.tls -}}
{{- else -}}
secretName: {{ include "setpoint.etcdClientSecret" . }}
clientCertificate: true
caKey: ca.crt
certKey: tls.crt
keyKey: tls.key
{{- end -}}
{{- end -}}

{{- /* What every process of the program is told. */ -}}
{{- define "setpoint.commonArgs" -}}
- --config=/etc/setpoint/config/setpoint.yaml
- --log-level={{ .Values.logLevel }}
{{- range .Values.plugins.dirs }}
- --plugin={{ . }}
{{- end }}
{{- end -}}

{{- /* (list $ component values-of-the-component): what a pod is told about where to run. */ -}}
{{- define "setpoint.scheduling" -}}
{{- $values := index . 2 -}}
{{- with $values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with $values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- if $values.topologySpread }}
topologySpreadConstraints:
{{- range $values.topologySpread }}
  - maxSkew: {{ default 1 .maxSkew }}
    topologyKey: {{ .topologyKey }}
    whenUnsatisfiable: {{ .whenUnsatisfiable }}
    labelSelector:
      matchLabels: {{- include "setpoint.selectorLabels" (list (index $ 0) (index $ 1)) | nindent 8 }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "setpoint.pullSecrets" -}}
{{- with .Values.image.pullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}
