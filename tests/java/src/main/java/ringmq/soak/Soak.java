package ringmq.soak;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;

/**
 * Official clients that do everything at once, for a long time, while the broker ends and comes back.
 *
 * <p>Arguments: nameserver, broker, run (a name that makes topics and groups unique), seconds. The broker has to stay for
 * good after that time; then everything acknowledged has to arrive. The last line is {@code N passed, N failed}.
 */
public final class Soak {
    private static final int DRAIN_SECONDS = 180;

    private Soak() {
    }

    public static void main(String[] arguments) throws Exception {
        if (arguments.length != 4) {
            System.err.println("usage: Soak NAMESRV BROKER RUN SECONDS");
            System.exit(2);
        }
        try {
            soak(arguments);
        } catch (Exception fault) {
            fault.printStackTrace();
            // The clients' threads would go on.
            System.exit(1);
        }
    }

    private static void soak(String[] arguments) throws Exception {
        String namesrv = arguments[0];
        String run = arguments[2];
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(Long.parseLong(arguments[3]));
        List<Actor> actors = List.of(new Plain(namesrv, run), new Ordered(namesrv, run), new Delayed(namesrv, run),
            new Transactions(namesrv, run), new Retries(namesrv, run), new Filtered(namesrv, run),
            new Requests(namesrv, run), new Pops(namesrv, arguments[1], run));
        for (Actor actor : actors) {
            actor.start();
        }
        System.out.println("STARTED");
        List<Thread> threads = new ArrayList<>();
        for (Actor actor : actors) {
            Thread thread = new Thread(() -> work(actor, end), actor.name);
            thread.start();
            threads.add(thread);
        }
        for (Thread thread : threads) {
            thread.join();
        }
        drain(actors);
        List<String> faults = new ArrayList<>();
        for (Actor actor : actors) {
            actor.finish();
            for (Ledger ledger : actor.ledgers) {
                System.out.println(ledger);
                faults.addAll(ledger.faults());
            }
        }
        faults.forEach(fault -> System.out.println("FAIL " + fault));
        long ledgers = actors.stream().mapToLong(actor -> actor.ledgers.size()).sum();
        long failed = faults.stream().map(fault -> fault.substring(0, fault.indexOf(':'))).distinct().count();
        System.out.println(ledgers - failed + " passed, " + failed + " failed");
        System.out.flush();
        actors.forEach(Actor::close);
        System.exit(failed == 0 ? 0 : 1);
    }

    /** Sends at the actor's rate. A send that fails is not acknowledged, which the ledger knows. */
    private static void work(Actor actor, long end) {
        long pauseMs = 1000 / actor.rate();
        for (int number = 0; System.nanoTime() < end; number++) {
            try {
                actor.send(number);
                Thread.sleep(pauseMs);
            } catch (Exception away) {
                pause();
            }
        }
    }

    private static void pause() {
        try {
            Thread.sleep(100);
        } catch (InterruptedException stopped) {
            Thread.currentThread().interrupt();
        }
    }

    private static void drain(List<Actor> actors) throws InterruptedException {
        long limit = System.nanoTime() + TimeUnit.SECONDS.toNanos(DRAIN_SECONDS);
        while (System.nanoTime() < limit
            && actors.stream().flatMap(actor -> actor.ledgers.stream()).anyMatch(ledger -> !ledger.missing().isEmpty())) {
            Thread.sleep(500);
        }
        // What may not arrive at all gets a moment to do so.
        Thread.sleep(2000);
    }
}
