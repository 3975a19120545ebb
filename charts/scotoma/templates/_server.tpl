{{- /* Names under which the server is asked, separated by commas. */ -}}
{{- define "scotoma.hosts" -}}
{{- $name := include "scotoma.server" . -}}
{{- $names := list $name (printf "%s.%s" $name .Release.Namespace) (printf "%s.%s.svc" $name .Release.Namespace) (printf "%s.%s.svc.cluster.local" $name .Release.Namespace) -}}
{{- $hosts := list "localhost:*" "127.0.0.1:*" -}}
{{- range $names }}{{ $hosts = append $hosts (printf "%s:5000" .) }}{{ end -}}
{{- if .Values.ingress.enabled }}{{ $hosts = append $hosts .Values.ingress.host }}{{ end -}}
{{- join "," (concat $hosts .Values.mlflow.allowedHosts | uniq) -}}
{{- end -}}

{{- /* Pages whose scripts may ask it to change something: a browser names its page's own, too. */ -}}
{{- define "scotoma.origins" -}}
{{- $origins := list -}}
{{- if .Values.ingress.enabled -}}
{{- $scheme := ternary "https" "http" (or (ne .Values.ingress.tlsSecret "") .Values.ingress.tlsElsewhere) -}}
{{- $origins = append $origins (printf "%s://%s" $scheme .Values.ingress.host) -}}
{{- end -}}
{{- range .Values.mlflow.allowedHosts -}}
{{- $origins = concat $origins (list (printf "https://%s" .) (printf "http://%s" .)) -}}
{{- end -}}
{{- join "," $origins -}}
{{- end -}}

{{- /* The settings with the password database's URI, in which a % of the ini file counts double. */ -}}
{{- define "scotoma.start" -}}
{{- if .Values.auth.enabled -}}
umask 077
cat > /tmp/basic_auth.ini <<SETTINGS
[mlflow]
database_uri = $(printf %s "$PASSWORDS_URI" | sed 's/%/%%/g')
default_permission = {{ .Values.auth.defaultPermission }}
authorization_function = mlflow.server.auth:authenticate_request_basic_auth
auth_cache_ttl_seconds = 60
SETTINGS
{{ end -}}
exec mlflow server --host 0.0.0.0 --port 5000 --workers {{ .Values.mlflow.workers }} \
  --allowed-hosts '{{ include "scotoma.hosts" . }}'
{{- with include "scotoma.origins" . }} \
  --cors-allowed-origins '{{ . }}'
{{- end }}
{{- if .Values.auth.enabled }} \
  --app-name basic-auth
{{- end }}
{{- end -}}

{{- define "scotoma.serverEnvironment" -}}
- {name: MLFLOW_SERVER_ENABLE_JOB_EXECUTION, value: "false"}
- {name: MLFLOW_DISABLE_TELEMETRY, value: "true"}
- name: MLFLOW_BACKEND_STORE_URI
{{- if eq .Values.database.kind "sqlite" }}
  value: sqlite:////mlflow/mlflow.db
{{- else }}
  valueFrom: {secretKeyRef: {name: {{ .Values.database.secret }}, key: runs}}
{{- end }}
- name: MLFLOW_ARTIFACTS_DESTINATION
{{- if eq .Values.artifacts.kind "volume" }}
  value: /mlflow/artifacts
{{- else }}
  value: {{ printf "s3://%s/%s" .Values.artifacts.bucket .Values.artifacts.prefix | quote }}
- {name: AWS_DEFAULT_REGION, value: {{ .Values.artifacts.region | quote }}}
{{- with .Values.artifacts.endpoint }}
- {name: MLFLOW_S3_ENDPOINT_URL, value: {{ . | quote }}}
{{- end }}
{{- if .Values.artifacts.secret }}
{{- range list "AWS_ACCESS_KEY_ID" "AWS_SECRET_ACCESS_KEY" }}
- name: {{ . }}
  valueFrom: {secretKeyRef: {name: {{ $.Values.artifacts.secret }}, key: {{ . }}}}
{{- end }}
{{- end }}
{{- end }}
{{- if .Values.auth.enabled }}
- {name: MLFLOW_AUTH_CONFIG_PATH, value: /tmp/basic_auth.ini}
- name: PASSWORDS_URI
{{- if eq .Values.database.kind "sqlite" }}
  value: sqlite:////mlflow/passwords.db
{{- else }}
  valueFrom: {secretKeyRef: {name: {{ .Values.database.secret }}, key: passwords}}
{{- end }}
{{- range $variable, $key := dict "MLFLOW_AUTH_ADMIN_USERNAME" "username" "MLFLOW_AUTH_ADMIN_PASSWORD" "password" "MLFLOW_FLASK_SERVER_SECRET_KEY" "flask-secret-key" }}
- name: {{ $variable }}
  valueFrom: {secretKeyRef: {name: {{ include "scotoma.auth" $ }}, key: {{ $key }}}}
{{- end }}
{{- end }}
{{- end -}}

{{- define "scotoma.serverMounts" -}}
- {name: scratch, mountPath: /tmp}
{{- if include "scotoma.onVolume" . }}
- {name: kept, mountPath: /mlflow}
{{- end }}
{{- end -}}
