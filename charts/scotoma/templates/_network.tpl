{{- /* Nothing, or name resolution and the TCP ports that are listed. */ -}}
{{- define "scotoma.egress" -}}
{{- if . -}}
egress:
  - ports:
      - {protocol: UDP, port: 53}
      - {protocol: TCP, port: 53}
      {{- range $port := . }}
      - {protocol: TCP, port: {{ $port | int }}}
      {{- end }}
{{- else -}}
egress: []
{{- end -}}
{{- end -}}
