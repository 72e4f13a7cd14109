package lakepruner.trino.client;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicBoolean;

/** Scans that are asked for with one request. */
final class Batch {
    /** The service takes so many. */
    private static final int SCANS = 256;

    private static final byte[] BEGIN = "{\"scans\":[".getBytes(StandardCharsets.UTF_8);
    private static final byte[] END = "]}".getBytes(StandardCharsets.UTF_8);

    /** What the service says of a table, and the name by which it knows it. */
    record Named(String name, JsonNode answer) {}

    /**
     * One of them.
     *
     * @param at which of the names it was asked by
     * @param isHeard whether its line has come; its promise may still wait for another request then
     */
    record Scanned(Question question, int at, CompletableFuture<Named> promise, AtomicBoolean isHeard) {
        Scanned(Question question, int at, CompletableFuture<Named> promise) {
            this(question, at, promise, new AtomicBoolean());
        }

        void follow(CompletableFuture<Named> other) {
            other.whenComplete((found, error) -> {
                if (error == null) {
                    promise.complete(found);
                } else {
                    promise.completeExceptionally(Exchange.cause(error));
                }
            });
        }
    }

    private final int limit;
    private final List<Scanned> scans = new ArrayList<>();
    private final ByteArrayOutputStream body = new ByteArrayOutputStream();

    Batch(int bytes) {
        this.limit = bytes;
        body.writeBytes(BEGIN);
    }

    boolean takes(byte[] request) {
        return scans.isEmpty() || (scans.size() < SCANS && body.size() + request.length < limit);
    }

    void add(Scanned scan, byte[] request) {
        if (!scans.isEmpty()) {
            body.write(',');
        }
        scans.add(scan);
        body.writeBytes(request);
    }

    List<Scanned> scans() {
        return scans;
    }

    byte[] bytes() {
        body.writeBytes(END);
        return body.toByteArray();
    }

    /** The scan that a line of the answer is about. */
    Scanned of(JsonNode line) {
        int number = line.path("scan").asInt(-1);
        if (number < 0 || number >= scans.size() || !scans.get(number).isHeard().compareAndSet(false, true)) {
            throw new PlannerError("the service's answer cannot be used", "scan is " + line.path("scan"));
        }
        return scans.get(number);
    }

    /** The answer is over: there are no lines of the others. */
    void over(Throwable failure) {
        scans.stream().filter(scan -> !scan.isHeard().get()).forEach(scan -> scan.promise().completeExceptionally(failure));
    }
}
