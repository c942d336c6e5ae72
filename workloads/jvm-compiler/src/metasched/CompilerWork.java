// SPDX-License-Identifier: GPL-2.0-only
package metasched;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;

/** Compiles small generated sources again and again, each worker its own. */
final class CompilerWork implements Work {
    /** Different sources, so that no compiler can keep what it made. */
    private static final int SOURCES = 8;

    private final int workers = Setting.threads("threads");
    private final Compiler[] compilers = new Compiler[workers];
    private final Path[][] sources = new Path[workers][SOURCES];
    private final int[] turns = new int[workers];

    /** A compiler that lives in this process. */
    interface Compiler {
        /** Compiles a file; what it throws says what is wrong. */
        void compile(Path source) throws Exception;
    }

    /** Serves; the arguments are a folder for sources and classes, and the folder of libraries. */
    public static void main(String[] args) {
        Server.serve(() -> new CompilerWork(Path.of(args[0]), Path.of(args[1])));
    }

    private CompilerWork(Path folder, Path libraries) throws IOException {
        boolean scala = Setting.text("compiler").equals("scala3");
        int methods = Setting.whole("methods", 1, 10_000);
        for (int worker = 0; worker < workers; worker++) {
            Path classes = Files.createDirectories(folder.resolve("classes-" + worker));
            Path from = Files.createDirectories(folder.resolve("sources-" + worker));
            for (int i = 0; i < SOURCES; i++) {
                Path source = from.resolve("Shape" + i + (scala ? ".scala" : ".java"));
                Files.writeString(source, scala ? Source.scala(i, methods) : Source.java(i, methods));
                sources[worker][i] = source;
            }
            compilers[worker] = scala ? new Scala(classes, libraries) : new Javac(classes);
        }
    }

    @Override
    public int workers() {
        return workers;
    }

    @Override
    public void unit(int worker) throws Exception {
        compilers[worker].compile(sources[worker][turns[worker]++ % SOURCES]);
    }
}
