#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Starts Apache in the foreground, with Debian's settings of the event MPM and a page of 1 KiB.
set -euo pipefail
cd "$(dirname "$0")"
. ../common/common.sh
need METASCHED_RUN METASCHED_CPUS
use_root
need_tool apache2
port_free

home=$(fresh_folder apache2)
modules=$METASCHED_RUN/root/usr/lib/apache2/modules
mkdir "$home/html"
head -c 1024 /dev/zero | tr '\0' x >"$home/html/index.html"
user=
[ "$(id -u)" != 0 ] || user="User nobody
Group nogroup"
# Connections may serve any number of requests, else Apache closes each after 100.
cat >"$home/apache.conf" <<CONF
ServerRoot $home
ServerName localhost
$user
Listen 127.0.0.1:$METASCHED_PARAM_PORT
ListenBacklog 1024
PidFile $home/pid
DefaultRuntimeDir $home
ErrorLog /dev/stderr
LogLevel warn
LoadModule mpm_event_module $modules/mod_mpm_event.so
LoadModule authz_core_module $modules/mod_authz_core.so
LoadModule dir_module $modules/mod_dir.so
StartServers 2
MinSpareThreads 25
MaxSpareThreads 75
ThreadsPerChild 25
MaxRequestWorkers 150
KeepAlive On
MaxKeepAliveRequests 0
KeepAliveTimeout 600
DocumentRoot $home/html
DirectoryIndex index.html
CONF
exec apache2 -D FOREGROUND -f "$home/apache.conf"
