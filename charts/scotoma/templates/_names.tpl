{{- /* The release's name, said once. */ -}}
{{- define "scotoma.name" -}}
{{- if contains "scotoma" .Release.Name -}}
{{ .Release.Name | trunc 40 | trimSuffix "-" }}
{{- else -}}
{{ printf "%s-scotoma" (.Release.Name | trunc 32 | trimSuffix "-") }}
{{- end -}}
{{- end -}}

{{- define "scotoma.server" -}}{{ include "scotoma.name" . }}-mlflow{{- end -}}

{{- define "scotoma.scheduler" -}}{{ include "scotoma.name" . }}-schedules{{- end -}}

{{- define "scotoma.auth" -}}{{ .Values.auth.secret | default (printf "%s-auth" (include "scotoma.server" .)) }}{{- end -}}

{{- define "scotoma.claim" -}}{{ .Values.volume.claim | default (include "scotoma.server" .) }}{{- end -}}

{{- define "scotoma.kubeflowNamespace" -}}{{ .Values.kubeflow.namespace | default .Release.Namespace }}{{- end -}}

{{- /* "yes" where something is kept on the volume. */ -}}
{{- define "scotoma.onVolume" -}}
{{- if or (eq .Values.database.kind "sqlite") (eq .Values.artifacts.kind "volume") -}}yes{{- end -}}
{{- end -}}

{{- /* What finds the pods of a component; call with (list $ "mlflow"). */ -}}
{{- define "scotoma.selector" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: scotoma
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end -}}

{{- define "scotoma.labels" -}}
{{- $root := index . 0 -}}
{{ include "scotoma.selector" . }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version }}
{{- end -}}

{{- /* An image; call with (list $ "core"). */ -}}
{{- define "scotoma.image" -}}
{{- $root := index . 0 -}}
{{- $name := index $root.Values.images (index . 1) -}}
{{- with $root.Values.images.registry }}{{ trimSuffix "/" . }}/{{ end -}}
{{ $name }}{{ if not (contains "@" $name) }}:{{ $root.Values.images.tag | default $root.Chart.AppVersion }}{{ end }}
{{- end -}}

{{- define "scotoma.pullSecrets" -}}
{{- with .Values.images.pullSecrets }}
imagePullSecrets:
{{- range . }}
  - name: {{ . | quote }}
{{- end }}
{{- end }}
{{- end -}}

{{- /* Port of an address. */ -}}
{{- define "scotoma.portOf" -}}
{{- $url := urlParse . -}}
{{ regexFind ":[0-9]+$" $url.host | trimPrefix ":" | default (ternary "443" "80" (eq $url.scheme "https")) }}
{{- end -}}
