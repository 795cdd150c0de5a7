{{/* The name of everything the release makes. */}}
{{- define "headrace.name" -}}
{{- (contains "headrace" .Release.Name | ternary .Release.Name (printf "%s-headrace" .Release.Name)) | trunc 63 | trimSuffix "-" }}
{{- end }}

{{/* What its pods are found by; it never changes. */}}
{{- define "headrace.selector" -}}
app.kubernetes.io/name: headrace
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: scheduler
{{- end }}

{{- define "headrace.labels" -}}
{{ include "headrace.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end }}

{{- define "headrace.account" -}}
{{- if .Values.serviceAccount.name }}{{ .Values.serviceAccount.name }}{{ else if .Values.serviceAccount.create }}{{ include "headrace.name" . }}{{ else }}{{ fail "serviceAccount.name: must be set when serviceAccount.create is false" }}{{ end }}
{{- end }}

{{- define "headrace.image" -}}
{{- if .Values.image.digest }}{{ .Values.image.repository }}@{{ .Values.image.digest }}{{ else }}{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end }}
{{- end }}

{{/* The first schedulerName: what the lease is called. */}}
{{- define "headrace.scheduler" -}}
{{- if .Values.scheduler.profiles }}{{ (first .Values.scheduler.profiles).name }}{{ else }}{{ .Values.scheduler.name }}{{ end }}
{{- end }}

{{/* Where what was learned is kept. */}}
{{- define "headrace.beliefs" -}}
{{- $name := include "headrace.scheduler" . }}{{ eq $name "headrace" | ternary "headrace-beliefs" (printf "headrace-beliefs-%s" $name) }}
{{- end }}

{{/* Where what is kept for pods to come is written. */}}
{{- define "headrace.heirs" -}}
{{- $name := include "headrace.scheduler" . }}{{ eq $name "headrace" | ternary "headrace-heirs" (printf "headrace-heirs-%s" $name) }}
{{- end }}
