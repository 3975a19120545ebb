{{- /* A job that makes the schedule of one audit, or removes it. */ -}}
{{- define "scotoma.scheduleJob" }}
{{- $values := .root.Values }}
---
apiVersion: batch/v1
kind: Job
metadata:
  name: {{ include "scotoma.name" .root | trunc 20 | trimSuffix "-" }}-{{ ternary "remove" "schedule" (eq .when "pre-delete") }}-{{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels: {{- include "scotoma.labels" (list .root "schedules") | nindent 4 }}
  annotations:
    helm.sh/hook: {{ .when }}
    helm.sh/hook-delete-policy: before-hook-creation
spec:
  backoffLimit: 2
  activeDeadlineSeconds: 600
  ttlSecondsAfterFinished: 604800 # a week, in which its log can be read
  template:
    metadata:
      labels: {{- include "scotoma.labels" (list .root "schedules") | nindent 8 }}
    spec:
      serviceAccountName: {{ include "scotoma.scheduler" .root }}
      {{- include "scotoma.pod" .root | nindent 6 }}
      restartPolicy: Never
      containers:
        - name: schedule
          image: {{ include "scotoma.image" (list .root "core") | quote }}
          imagePullPolicy: {{ $values.images.pullPolicy }}
          {{- include "scotoma.container" .root | nindent 10 }}
          command: [scotoma, kubeflow, {{ .verb }}]
          args:
            {{- if eq .verb "unschedule" }}
            - {{ .name | quote }}
            {{- else }}
            - /schedules/{{ .name }}.yaml
            - --name={{ .name }}
            - {{ printf "--out=%s" .schedule.out | quote }}
            {{- if .schedule.gate }}
            - --rules=/schedules/{{ .name }}.gate.yaml
            {{- end }}
            {{- end }}
            - {{ printf "--endpoint=%s" $values.kubeflow.endpoint | quote }}
            - {{ printf "--namespace=%s" (include "scotoma.kubeflowNamespace" .root) | quote }}
          env:
            - {name: SCOTOMA_IMAGE, value: {{ include "scotoma.image" (list .root "full") | quote }}}
            - {name: SCOTOMA_CORE_IMAGE, value: {{ include "scotoma.image" (list .root "core") | quote }}}
            {{- if $values.kubeflow.tokenSecret }}
            - name: SCOTOMA_KFP_TOKEN
              valueFrom: {secretKeyRef: {name: {{ $values.kubeflow.tokenSecret | quote }}, key: token}}
            {{- else }}
            - {name: KF_PIPELINES_SA_TOKEN_PATH, value: /var/run/secrets/kubeflow/token}
            {{- end }}
            {{- if eq .verb "schedule" }}
            {{- range $variable, $value := .schedule.environment }}
            - {name: {{ $variable | quote }}, value: {{ $value | quote }}}
            {{- end }}
            {{- range $secret, $keys := .schedule.secrets }}
            {{- range $keys }}
            - name: {{ . | quote }}
              valueFrom: {secretKeyRef: {name: {{ $secret | quote }}, key: {{ . | quote }}}}
            {{- end }}
            {{- end }}
            {{- end }}
          resources: {{- toYaml $values.kubeflow.resources | nindent 12 }}
          volumeMounts:
            - {name: scratch, mountPath: /tmp}
            - {name: schedules, mountPath: /schedules, readOnly: true}
            {{- if not $values.kubeflow.tokenSecret }}
            - {name: token, mountPath: /var/run/secrets/kubeflow, readOnly: true}
            {{- end }}
      volumes:
        - name: scratch
          emptyDir: {sizeLimit: 512Mi}
        - name: schedules
          configMap: {name: {{ include "scotoma.scheduler" .root }}}
        {{- if not $values.kubeflow.tokenSecret }}
        - name: token
          projected:
            sources:
              - serviceAccountToken:
                  {path: token, expirationSeconds: 3600, audience: {{ $values.kubeflow.tokenAudience | quote }}}
        {{- end }}
{{- end }}
