package ringmq.soak;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicLong;

/** What was sent, what was acknowledged, and what arrived; and every fault seen. Messages are known by their body. */
final class Ledger {
    private static final int TOLD_MAX = 5;

    private final String name;
    private final Set<String> sent = ConcurrentHashMap.newKeySet();
    private final Set<String> acknowledged = ConcurrentHashMap.newKeySet();
    private final Map<String, Integer> arrived = new ConcurrentHashMap<>();
    private final ConcurrentLinkedQueue<String> faults = new ConcurrentLinkedQueue<>();
    private final AtomicLong repeats = new AtomicLong();

    Ledger(String name) {
        this.name = name;
    }

    void sending(String id) {
        sent.add(id);
    }

    void acknowledged(String id) {
        acknowledged.add(id);
    }

    /** How often it has arrived by now. */
    int arrived(String id) {
        if (!sent.contains(id)) {
            fault(id + " arrived and was never sent here");
        }
        int times = arrived.merge(id, 1, Integer::sum);
        if (times > 1) {
            repeats.incrementAndGet();
        }
        return times;
    }

    void fault(String what) {
        faults.add(name + ": " + what);
    }

    /** Acknowledged and not arrived. */
    Set<String> missing() {
        Set<String> missing = new TreeSet<>(acknowledged);
        missing.removeAll(arrived.keySet());
        return missing;
    }

    /** All faults, with what is still missing. */
    List<String> faults() {
        List<String> all = new ArrayList<>();
        int told = 0;
        for (String fault : faults) {
            if (told++ < TOLD_MAX) {
                all.add(fault);
            }
        }
        if (told > TOLD_MAX) {
            all.add(name + ": " + (told - TOLD_MAX) + " faults more");
        }
        Set<String> missing = missing();
        if (!missing.isEmpty()) {
            all.add(name + ": " + missing.size() + " acknowledged messages never arrived: "
                + missing.stream().limit(TOLD_MAX).reduce((a, b) -> a + ", " + b).orElse(""));
        }
        return all;
    }

    @Override
    public String toString() {
        return String.format("%-14s %7d sent, %7d acknowledged, %7d arrived, %6d repeats", name, sent.size(),
            acknowledged.size(), arrived.size(), repeats.get());
    }
}
