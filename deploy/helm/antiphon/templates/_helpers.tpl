{{- define "antiphon.labels" -}}
app.kubernetes.io/name: antiphon
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "antiphon.secret" -}}
{{ default .Release.Name .Values.secrets.existing }}
{{- end }}
