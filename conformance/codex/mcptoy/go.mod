module github.com/antiphon-dev/antiphon/conformance/codex/mcptoy

go 1.27.0

toolchain go1.27.3
