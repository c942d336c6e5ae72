// SPDX-License-Identifier: GPL-2.0-only
package metasched;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.BindException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executors;

/**
 * Warms a work up, then measures it whenever it is asked to.
 *
 * <p>GET /ready answers 200 after the warm-up; GET /run/SECONDS does the work for so long and
 * answers with one line of figures. So all measurements of one start meet compiled code, and the
 * figures are of this process's own clock.
 */
final class Server {
    /** A typing error in a duration shall not hold a machine for hours. */
    private static final double MAX_SECONDS = 3600;

    private static final int TRAIN_SECONDS = 4;

    private final Work work;
    private volatile boolean ready;

    private Server(Work work) {
        this.work = work;
    }

    /**
     * Serves until it is killed. METASCHED_PARAM_PORT and METASCHED_PARAM_WARMUP_S say where and when.
     * With -Dmetasched.train=true it only warms up and ends, for the JVM to note which classes it loads.
     */
    static void serve(Opener opener) {
        boolean train = Boolean.getBoolean("metasched.train");
        int port = train ? 0 : Setting.whole("port", 1, 65535);
        int warmup = train ? TRAIN_SECONDS : Setting.whole("warmup_s", 0, 3600);
        long began = System.nanoTime();
        try {
            // Before the work is opened: a port in use is told at once.
            HttpServer http = listen(port);
            Server server = new Server(opener.open());
            http.createContext("/run/", server::run);
            http.createContext("/ready", exchange -> answer(exchange, server.ready ? 200 : 503, ""));
            http.setExecutor(Executors.newCachedThreadPool());
            http.start();
            System.out.printf("opened after %.1f s%n", (System.nanoTime() - began) / 1e9);
            server.warmUp(warmup);
            if (train) {
                System.exit(0);
            }
        } catch (Exception e) {
            e.printStackTrace();
            fail("start the work", e.toString(), "see above");
        }
    }

    /** Opens a work; what it throws ends the process. */
    interface Opener {
        Work open() throws Exception;
    }

    /** Ends the process with an error of the usual form. */
    static RuntimeException fail(String attempt, String cause, String remedy) {
        System.err.println("cannot " + attempt + ": " + cause + "; " + remedy);
        Runtime.getRuntime().halt(1);
        return new IllegalStateException(cause);
    }

    private static HttpServer listen(int port) throws IOException {
        try {
            return HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), port), 16);
        } catch (BindException e) {
            throw fail("listen on port " + port, e.getMessage(), "give another with --set port=NUMBER");
        }
    }

    private void warmUp(int seconds) throws Exception {
        // In pieces, so that the log shows how far the compiler of the JVM has come.
        for (int done = 0; done < seconds; done += 5) {
            Latencies latencies = new Latencies();
            long errors = measure(Math.min(5, seconds - done), latencies);
            System.out.printf("warm-up: %d units, %d errors%n", latencies.count(), errors);
            if (latencies.count() == 0) {
                fail("warm up", "no unit was done", "see above");
            }
        }
        System.gc();
        ready = true;
    }

    private synchronized void run(HttpExchange exchange) throws IOException {
        String path = exchange.getRequestURI().getPath();
        try {
            double seconds = Double.parseDouble(path.substring("/run/".length()));
            if (!(seconds > 0 && seconds <= MAX_SECONDS)) {
                throw new NumberFormatException();
            }
            Latencies latencies = new Latencies();
            long began = System.nanoTime();
            long errors = measure(seconds, latencies);
            double duration = (System.nanoTime() - began) / 1e9;
            if (latencies.count() == 0) {
                answer(exchange, 500, "no unit was done; see the server's log");
                return;
            }
            answer(exchange, 200, String.format(
                    "METASCHED {\"throughput_per_s\":%.3f,\"requests\":%d,\"errors\":%d,"
                            + "\"duration_s\":%.6f,%s}",
                    latencies.count() / duration, latencies.count(), errors, duration, latencies.json()));
        } catch (NumberFormatException e) {
            answer(exchange, 400, "'" + path + "' is not /run/SECONDS");
        } catch (Exception e) {
            e.printStackTrace();
            answer(exchange, 500, e.toString());
        }
    }

    /** Has all workers work for some seconds; gives the number of units that failed. */
    private long measure(double seconds, Latencies sum) throws InterruptedException {
        int workers = work.workers();
        Latencies[] latencies = new Latencies[workers];
        long[] errors = new long[workers];
        Thread[] threads = new Thread[workers];
        CountDownLatch go = new CountDownLatch(1);
        long[] end = new long[1];
        for (int i = 0; i < workers; i++) {
            int worker = i;
            latencies[i] = new Latencies();
            threads[i] = new Thread(() -> {
                try {
                    go.await();
                } catch (InterruptedException e) {
                    return;
                }
                errors[worker] = until(end[0], worker, latencies[worker]);
            }, "worker-" + i);
            threads[i].start();
        }
        end[0] = System.nanoTime() + (long) (seconds * 1e9);
        go.countDown();
        long failed = 0;
        for (int i = 0; i < workers; i++) {
            threads[i].join();
            sum.add(latencies[i]);
            failed += errors[i];
        }
        return failed;
    }

    private long until(long end, int worker, Latencies latencies) {
        long errors = 0;
        for (long began = System.nanoTime(); began - end < 0; ) {
            try {
                work.unit(worker);
                long now = System.nanoTime();
                latencies.record((now - began) / 1000);
                began = now;
            } catch (Exception e) {
                // The first is enough to see what is wrong.
                if (errors++ == 0) {
                    e.printStackTrace();
                }
                began = System.nanoTime();
            }
        }
        return errors;
    }

    private static void answer(HttpExchange exchange, int status, String text) throws IOException {
        byte[] body = (text + "\n").getBytes(StandardCharsets.UTF_8);
        exchange.sendResponseHeaders(status, body.length);
        exchange.getResponseBody().write(body);
        exchange.close();
    }
}
