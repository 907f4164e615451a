# The program from the lockfile, with the console and without other plugins:
#
#     docker build --tag setpoint .
#
# It loads every folder of /app/plugins. Your own image adds them there:
#
#     FROM setpoint
#     COPY my-plugin /app/plugins/my-plugin
#
# It listens on every address, so it requires --token-file (SETPOINT_TOKEN_FILE). The health check reads the same
# environment variables.
ARG NODE_IMAGE=node:20.20.2-bookworm-slim

FROM ${NODE_IMAGE} AS build
WORKDIR /src
ENV NPM_CONFIG_CACHE=/var/cache/npm
COPY . .
RUN --mount=type=cache,target=/var/cache/npm \
    npm ci --ignore-scripts --no-audit --no-fund \
 && npm run build \
 && node scripts/assemble.mjs /program

FROM ${NODE_IMAGE}
LABEL org.opencontainers.image.title="Setpoint" \
      org.opencontainers.image.description="A Kubernetes-style control plane, extensible by plugins" \
      org.opencontainers.image.licenses="Apache-2.0"
ENV NODE_ENV=production \
    SETPOINT_LISTEN=0.0.0.0:8090 \
    SETPOINT_DATA_DIR=/data
# npm is unused at run time, and most security patches concern it.
RUN rm -rf /usr/local/lib/node_modules /opt/yarn* /usr/local/bin/npm /usr/local/bin/npx /usr/local/bin/corepack \
      /usr/local/bin/yarn /usr/local/bin/yarnpkg \
 && install -d -o 1000 -g 1000 -m 0750 /data
COPY --from=build /program /app
COPY scripts/container-health.mjs /app/scripts/
# Numeric, so that Kubernetes can verify that it is not root.
USER 1000:1000
WORKDIR /app
VOLUME /data
EXPOSE 8090
# /livez responds before the store and its indexes are ready.
HEALTHCHECK --interval=10s --timeout=5s --start-period=20s --retries=3 \
  CMD ["node", "/app/scripts/container-health.mjs"]
ENTRYPOINT ["node", "/app/apiserver/bin/setpoint.js"]
CMD ["serve"]
