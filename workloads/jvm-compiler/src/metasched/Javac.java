// SPDX-License-Identifier: GPL-2.0-only
package metasched;

import java.io.StringWriter;
import java.nio.file.Path;
import java.util.List;
import javax.tools.JavaCompiler;
import javax.tools.StandardJavaFileManager;
import javax.tools.ToolProvider;

/** The JDK's own compiler. */
final class Javac implements CompilerWork.Compiler {
    private final JavaCompiler compiler = ToolProvider.getSystemJavaCompiler();
    private final StandardJavaFileManager files = compiler.getStandardFileManager(null, null, null);
    private final List<String> options;

    Javac(Path classes) {
        options = List.of("-d", classes.toString(), "-proc:none", "-g");
    }

    @Override
    public void compile(Path source) {
        StringWriter said = new StringWriter();
        if (!compiler.getTask(said, files, null, options, null, files.getJavaFileObjects(source)).call()) {
            throw new IllegalStateException(said.toString());
        }
    }
}
