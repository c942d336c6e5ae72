// SPDX-License-Identifier: GPL-2.0-only
package metasched;

import dotty.tools.dotc.Driver;
import dotty.tools.dotc.reporting.Reporter;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/** The compiler of Scala 3. */
final class Scala implements CompilerWork.Compiler {
    private final Driver driver = new Driver();
    private final String classes;
    private final String classPath;

    Scala(Path classes, Path libraries) throws IOException {
        this.classes = classes.toString();
        try (Stream<Path> jars = Files.list(libraries)) {
            classPath = jars.map(Path::toString)
                    .filter(name -> name.contains("library"))
                    .sorted()
                    .collect(Collectors.joining(java.io.File.pathSeparator));
        }
    }

    @Override
    public void compile(Path source) {
        String[] arguments = {"-classpath", classPath, "-d", classes, "-color", "never", source.toString()};
        Reporter reporter = driver.process(arguments);
        if (reporter.hasErrors()) {
            throw new IllegalStateException(source + " has errors");
        }
    }
}
