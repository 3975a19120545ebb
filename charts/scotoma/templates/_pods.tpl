{{- /* The restricted standard, and more: nobody's, read-only, without a token or a neighbour's name.
Kubernetes would put MLFLOW_PORT=tcp://... of a service called mlflow into every pod of its namespace,
where MLflow takes it for its own setting. */ -}}
{{- define "scotoma.pod" -}}
automountServiceAccountToken: false
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: {type: RuntimeDefault}
{{- include "scotoma.pullSecrets" . }}
{{- end -}}

{{- define "scotoma.container" -}}
securityContext:
  runAsNonRoot: true
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
  seccompProfile: {type: RuntimeDefault}
{{- end -}}
