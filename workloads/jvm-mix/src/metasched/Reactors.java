// SPDX-License-Identifier: GPL-2.0-only
package metasched;

import java.util.Queue;
import java.util.SplittableRandom;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicBoolean;

/**
 * Many small actors that send each other messages. A unit is a round: some messages are sent to
 * actors, each of which passes them on to another, until each was passed on so many times.
 */
final class Reactors implements Work {
    private static final int ACTORS = 64;
    private static final int MESSAGES = 8;
    private static final int HOPS = 25;
    /** An actor gives its thread to others after so many messages. */
    private static final int BATCH = 16;

    private final int threads = Setting.threads("threads");
    private final ExecutorService pool = Executors.newFixedThreadPool(threads, task -> {
        Thread thread = new Thread(task, "reactor");
        thread.setDaemon(true);
        return thread;
    });
    private final Actor[] actors = new Actor[ACTORS];

    private record Message(CountDownLatch round, int hops, long seed) {}

    /** One that has its messages done in the order in which they came, by one thread at a time. */
    private final class Actor implements Runnable {
        private final Queue<Message> mailbox = new ConcurrentLinkedQueue<>();
        private final AtomicBoolean scheduled = new AtomicBoolean();

        void send(Message message) {
            mailbox.add(message);
            schedule();
        }

        private void schedule() {
            if (!mailbox.isEmpty() && scheduled.compareAndSet(false, true)) {
                pool.execute(this);
            }
        }

        @Override
        public void run() {
            for (int i = 0; i < BATCH; i++) {
                Message message = mailbox.poll();
                if (message == null) {
                    break;
                }
                handle(message);
            }
            // A message that came after the last look is seen now, or by its sender.
            scheduled.set(false);
            schedule();
        }

        private void handle(Message message) {
            if (message.hops() == 0) {
                message.round().countDown();
                return;
            }
            SplittableRandom random = new SplittableRandom(message.seed());
            actors[random.nextInt(ACTORS)]
                    .send(new Message(message.round(), message.hops() - 1, random.nextLong()));
        }
    }

    Reactors() {
        for (int i = 0; i < ACTORS; i++) {
            actors[i] = new Actor();
        }
    }

    /** Those that start rounds and wait for their end. */
    @Override
    public int workers() {
        return 2;
    }

    @Override
    public void unit(int worker) throws InterruptedException {
        CountDownLatch round = new CountDownLatch(MESSAGES);
        for (int i = 0; i < MESSAGES; i++) {
            actors[i * (ACTORS / MESSAGES) + worker].send(new Message(round, HOPS, i));
        }
        round.await();
    }
}
