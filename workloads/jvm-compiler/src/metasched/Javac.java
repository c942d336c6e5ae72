// SPDX-License-Identifier: GPL-2.0-only
package metasched;

import com.sun.tools.javac.api.JavacTaskPool;
import java.io.StringWriter;
import java.nio.file.Path;
import java.util.List;
import javax.tools.JavaCompiler;
import javax.tools.StandardJavaFileManager;
import javax.tools.ToolProvider;

/** The JDK's own compiler, which keeps what it knows of the libraries from one file to the next. */
final class Javac implements CompilerWork.Compiler {
    private final JavaCompiler compiler = ToolProvider.getSystemJavaCompiler();
    private final StandardJavaFileManager files = compiler.getStandardFileManager(null, null, null);
    private final JavacTaskPool pool = new JavacTaskPool(1);
    private final List<String> options;

    Javac(Path classes) {
        options = List.of("-d", classes.toString(), "-proc:none", "-g");
    }

    @Override
    public void compile(Path source) {
        StringWriter said = new StringWriter();
        boolean good = pool.getTask(
                said, files, null, options, null, files.getJavaFileObjects(source), task -> task.call());
        if (!good) {
            throw new IllegalStateException(said.toString());
        }
    }
}
