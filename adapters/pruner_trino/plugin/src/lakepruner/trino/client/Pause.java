package lakepruner.trino.client;

import java.time.Duration;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Keeps scans from waiting for a service that answers nobody: after a time-out none asks for a while.
 *
 * <p>Then one scan asks again. The others still go on without a plan until it has an answer.
 */
final class Pause {
    private static final long NONE = 0;

    private final long nanos;
    private final AtomicLong end = new AtomicLong(NONE);

    Pause(Duration length) {
        this.nanos = length.toNanos();
    }

    /** Whether a scan may ask now. */
    boolean allows() {
        long current = end.get();
        return current == NONE || (System.nanoTime() - current >= 0 && end.compareAndSet(current, fromNow()));
    }

    /** The service took too long. */
    void begin() {
        end.set(nanos == 0 ? NONE : fromNow());
    }

    /** The service answered, whatever it said, or refused at once: waiting for it costs little. */
    void over() {
        end.set(NONE);
    }

    private long fromNow() {
        long moment = System.nanoTime() + nanos;
        return moment == NONE ? 1 : moment;
    }
}
