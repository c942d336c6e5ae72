#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Starts nginx in the foreground, with a worker for each CPU and a page of 1 KiB.
set -euo pipefail
cd "$(dirname "$0")"
. ../common/common.sh
need METASCHED_RUN METASCHED_CPUS
use_root
need_tool nginx
port_free

home=$(fresh_folder nginx)
mkdir "$home/html" "$home/temp"
head -c 1024 /dev/zero | tr '\0' x >"$home/html/index.html"
user=
[ "$(id -u)" != 0 ] || user="user nobody nogroup;"
# Connections may serve any number of requests, else nginx closes each after 1000.
cat >"$home/nginx.conf" <<CONF
$user
daemon off;
worker_processes $METASCHED_CPUS;
pid $home/pid;
error_log stderr warn;
events { worker_connections 1024; }
http {
    access_log off;
    sendfile on;
    tcp_nopush on;
    keepalive_requests 1000000000;
    keepalive_timeout 600s;
    client_body_temp_path $home/temp;
    proxy_temp_path $home/temp;
    fastcgi_temp_path $home/temp;
    uwsgi_temp_path $home/temp;
    scgi_temp_path $home/temp;
    server {
        listen 127.0.0.1:$METASCHED_PARAM_PORT backlog=1024;
        root $home/html;
    }
}
CONF
exec nginx -e stderr -p "$home" -c "$home/nginx.conf"
