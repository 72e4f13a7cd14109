package lakepruner.trino.scans;

import java.lang.management.ManagementFactory;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.LongAdder;
import java.util.logging.Level;
import java.util.logging.Logger;
import javax.management.JMException;
import javax.management.MBeanServer;
import javax.management.ObjectName;

/** What one catalog has left out, and why it did not; also {@code lakepruner:type=Pruning,catalog=…} in JMX. */
public final class Counters implements PruningMXBean {
    private final LongAdder scans = new LongAdder();
    private final LongAdder splitsListed = new LongAdder();
    private final LongAdder splitsDropped = new LongAdder();
    private final LongAdder plans = new LongAdder();
    private final LongAdder planningMillis = new LongAdder();
    private final LongAdder answers = new LongAdder();
    private final Map<String, LongAdder> unpruned = new ConcurrentHashMap<>();

    private Counters() {}

    public static Counters registered(String catalog) {
        Counters counters = new Counters();
        try {
            ObjectName name = new ObjectName("lakepruner:type=Pruning,catalog=" + ObjectName.quote(catalog));
            MBeanServer server = ManagementFactory.getPlatformMBeanServer();
            if (server.isRegistered(name)) {
                server.unregisterMBean(name);
            }
            server.registerMBean(counters, name);
        } catch (JMException error) {
            Logger.getLogger(Pruning.LOGGER).log(Level.WARNING, "pruning is counted, but JMX does not show it", error);
        }
        return counters;
    }

    void planned(long millis) {
        plans.increment();
        planningMillis.add(millis);
    }

    void answered() {
        answers.increment();
    }

    void unpruned(String reason) {
        unpruned.computeIfAbsent(reason, key -> new LongAdder()).increment();
    }

    void finished(long listed, long dropped) {
        scans.increment();
        splitsListed.add(listed);
        splitsDropped.add(dropped);
    }

    @Override
    public long getScans() {
        return scans.sum();
    }

    @Override
    public long getSplitsListed() {
        return splitsListed.sum();
    }

    @Override
    public long getSplitsDropped() {
        return splitsDropped.sum();
    }

    @Override
    public long getPlans() {
        return plans.sum();
    }

    @Override
    public long getPlanningMillis() {
        return planningMillis.sum();
    }

    @Override
    public long getAnswers() {
        return answers.sum();
    }

    @Override
    public Map<String, Long> getUnpruned() {
        Map<String, Long> counts = new TreeMap<>();
        unpruned.forEach((reason, count) -> counts.put(reason, count.sum()));
        return counts;
    }
}
