# SPDX-License-Identifier: GPL-2.0-only
# Sourced by the scripts of workloads on the JVM, after ../common/common.sh and packages.sh.
#
# All that such a workload runs is in $METASCHED_CACHE/java.tar: a JVM of the modules that it
# needs (java/), the libraries (jars/), its own classes (app.jar) and a list of those that a run
# loads (app.jsa). One file, because a guest reads the cache through a file system on which many
# small files are slow.

java_work=${METASCHED_CACHE:-}/work
# What javac and java need besides; set by scripts that source this.
java_options=()

# links_into ROOT: absolute links of unpacked packages lead to the files beside them.
links_into() {
    local link target
    while read -r link target; do
        [ ! -e "$1$target" ] ||
            ln -snf "$(realpath -m --relative-to="$(dirname "$link")" "$1$target")" "$link"
    done < <(find "$1" -type l -lname '/*' -printf '%p %l\n')
}

# fetch_jdk: unpacks a JDK, and Maven if there is none, and puts them in front of PATH.
fetch_jdk() {
    local names=(openjdk-17-jre-headless openjdk-17-jdk-headless)
    command -v mvn >/dev/null || names+=(maven)
    rm -rf "$java_work" "$METASCHED_CACHE/root" && mkdir -p "$java_work"
    fetch_packages "${names[@]}"
    links_into "$METASCHED_CACHE/root"
    use_root_at "$METASCHED_CACHE/root"
    JAVA_HOME=$(compgen -G "$METASCHED_CACHE/root/usr/lib/jvm/java-17-openjdk-*") ||
        fail "use the JDK" "the packages hold none" "see whether openjdk-17 is for this release"
    # Maven's own folder last: the name in /usr/bin is made by the installation.
    export JAVA_HOME PATH=$JAVA_HOME/bin:$PATH:$METASCHED_CACHE/root/usr/share/maven/bin
}

# fetch_jars POM: copies the libraries that POM names, and what they need, into jars/.
fetch_jars() {
    local log=$METASCHED_CACHE/maven.log
    mvn --batch-mode --no-transfer-progress --quiet --file "$1" -Dmaven.repo.local="$java_work/m2" \
        org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies -DincludeScope=runtime \
        -DoutputDirectory="$java_work/jars" >"$log" 2>&1 ||
        fail "fetch the libraries of '$1'" "$(grep -m1 -F ERROR "$log" || tail -n 1 "$log")" \
            "see whether Maven Central is reached and the disk has room"
    rm -rf "$java_work/m2" "$log"
}

# compile_java FOLDER...: compiles the sources of these folders into app.jar.
compile_java() {
    local log=$METASCHED_CACHE/javac.log sources
    mapfile -t sources < <(find "$@" -name '*.java' | sort)
    { javac "${java_options[@]}" -nowarn -g:none -d "$java_work/classes" -cp "$java_work/jars/*" \
        "${sources[@]}" &&
        jar --create --file "$java_work/app.jar" -C "$java_work/classes" .; } >"$log" 2>&1 ||
        fail "compile '$*'" "$(grep -m1 error "$log" || tail -n 1 "$log")" "correct the sources, or report it"
    rm -rf "$java_work/classes" "$log"
}

# make_runtime MODULES: a JVM of these modules alone; they are named with commas between them.
make_runtime() {
    local log=$METASCHED_CACHE/jlink.log
    { jlink --module-path "$JAVA_HOME/jmods" --add-modules "$1" --strip-debug --no-header-files \
        --no-man-pages --output "$java_work/java" &&
        "$java_work/java/bin/java" -Xshare:dump; } >"$log" 2>&1 ||
        fail "make a JVM of the modules $1" "$(tail -n 1 "$log")" "see whether the disk is full"
    rm -f "$log"
}

# class_path: the program and the libraries, seen from their folder, always in the same order.
class_path() {
    local jars=(jars/*.jar)
    [ -e "${jars[0]}" ] || jars=()
    (IFS=: && echo "app.jar${jars:+:}${jars[*]}")
}

# archive_classes CLASS ARGUMENT...: has a short run write down the classes that it loads, so that
# the JVM starts with them. Call it last: it holds only for the same files.
archive_classes() {
    local log=$METASCHED_CACHE/archive.log
    (cd "$java_work" && java/bin/java "${java_options[@]}" -Dmetasched.train=true \
        -XX:ArchiveClassesAtExit=app.jsa -XX:-UsePerfData -Djava.io.tmpdir="$java_work" \
        -cp "$(class_path)" "$@") >"$log" 2>&1 ||
        fail "run '$1' for a trial" "$(grep -m1 -E '^cannot|Exception' "$log" || tail -n 1 "$log")" \
            "see '$log'"
    rm -f "$log"
}

# pack_java: makes the one file, and removes what it was made of.
pack_java() {
    local names=(java) name
    for name in jars app.jar app.jsa; do
        [ ! -e "$java_work/$name" ] || names+=("$name")
    done
    { tar -C "$java_work" -cf "$METASCHED_CACHE/java.part" "${names[@]}" &&
        mv "$METASCHED_CACHE/java.part" "$METASCHED_CACHE/java.tar"; } ||
        fail "write '$METASCHED_CACHE/java.tar'" "see above" "see whether the disk is full"
    rm -rf "$java_work" "$METASCHED_CACHE/root"
}

# stage_java: unpacks it into memory.
stage_java() {
    local packed=$METASCHED_CACHE/java.tar
    [ -f "$packed" ] || fail "stage the workload" "there is no '$packed'" "prepare it first"
    fresh_folder java >/dev/null
    tar -C "$METASCHED_RUN/java" -xf "$packed" ||
        fail "unpack '$packed' into '$METASCHED_RUN'" "see above" \
            "see whether there is memory for $(du -h "$packed" | cut -f1), or prepare anew"
}

# serve CLASS ARGUMENT...: replaces the script by a JVM that runs the class.
serve() {
    local options temporary
    need_count heap_mb
    options=(-Xms"$METASCHED_PARAM_HEAP_MB"m -Xmx"$METASCHED_PARAM_HEAP_MB"m)
    [ -x "$METASCHED_RUN/java/java/bin/java" ] ||
        fail "start the JVM" "there is none in '$METASCHED_RUN'" "stage the workload first"
    port_free
    # The second compiler of the JVM makes faster code, but its own work takes minutes where the
    # CPU is emulated, so that code is not settled when it is measured.
    [ "$METASCHED_PARAM_JIT" = full ] || options+=(-XX:TieredStopAtLevel=1)
    temporary=$(fresh_folder tmp)
    cd "$METASCHED_RUN/java" || exit
    exec java/bin/java "${java_options[@]}" "${options[@]}" -XX:SharedArchiveFile=app.jsa -XX:-UsePerfData \
        -Djava.io.tmpdir="$temporary" -cp "$(class_path)" "$@"
}
