# The gateway alone in an image: static, without a shell, not root.
#
#   docker build --build-arg VERSION=$(git describe --tags --always) -t antiphon .
#   docker run -p 4100:4100 -v $PWD/antiphon.yaml:/etc/antiphon/antiphon.yaml:ro antiphon
FROM golang:1.27.3 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=unknown
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=$VERSION" -o /out/antiphon ./cmd/antiphon

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /out/antiphon /antiphon
USER 65532:65532
EXPOSE 4100 4101
ENTRYPOINT ["/antiphon"]
CMD ["serve", "--config", "/etc/antiphon/antiphon.yaml"]
