package lakepruner.trino;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.ConnectException;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.net.http.HttpTimeoutException;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.BitSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Function;
import java.util.zip.DataFormatException;
import java.util.zip.Inflater;

/** Asks the service for plans, without holding a thread while it waits. */
final class PlannerClient implements AutoCloseable {
    /** The service takes bodies up to 4 MiB. */
    private static final int BODY_BYTES = 4 * 1024 * 1024 - 4096;

    /** As many as the keys of one snapshot may be kept of; an answer that says more is not believed. */
    private static final int SLICES = KeyCache.SLICES;

    /** An answer has at most a bit for each slice, the keys of few, and reasons. */
    private static final long ANSWER_BYTES = 16 * 1024 * 1024;

    private static final int KNOWN_TABLES = 10_000;

    private final ObjectMapper mapper = new ObjectMapper();
    private final Settings settings;
    private final HttpClient http;
    private final KeyCache keys = new KeyCache();
    private final Pause pause;
    private final Map<String, Known> known = new ConcurrentHashMap<>();

    /** The name by which the service knew a table, and the snapshot that it was planned on last. */
    private record Known(String name, String snapshotId) {}

    /**
     * A plan.
     *
     * @param millis that the scan waited for it
     */
    record Answer(Dropped dropped, long millis, String summary) {}

    PlannerClient(Settings settings) {
        this.settings = settings;
        this.pause = new Pause(settings.pause());
        this.http = HttpClient.newBuilder()
                .version(HttpClient.Version.HTTP_1_1)
                .connectTimeout(settings.timeout())
                .build();
    }

    /** Plans a scan of a table that the service knows by one of the names; fails when there is no plan in time. */
    CompletableFuture<Answer> plan(List<String> names, ObjectNode session, ObjectNode content) {
        if (!pause.allows()) {
            return CompletableFuture.failedFuture(
                    new PlannerError("the service took too long lately", "it is not asked for a while"));
        }
        long asked = System.currentTimeMillis();
        Known last = known.get(names.getFirst());
        int at = last == null ? 0 : names.indexOf(last.name());
        // What goes wrong before the request is sent belongs into the future as well: it must not fail the query.
        return CompletableFuture.completedFuture(Math.max(at, 0))
                .thenCompose(from -> answer(names, from, session, content))
                .thenCompose(answer ->
                        dropped(names.getFirst(), answer, asked, Placement.of(content.get("columns"))))
                .orTimeout(settings.timeout().toMillis(), TimeUnit.MILLISECONDS)
                .whenComplete((answer, error) -> heeded(error));
    }

    private void heeded(Throwable error) {
        if (error != null && tookTooLong(cause(error))) {
            pause.begin();
        } else {
            pause.over();
        }
    }

    private static boolean tookTooLong(Throwable cause) {
        return cause instanceof TimeoutException || cause instanceof HttpTimeoutException;
    }

    private static Throwable cause(Throwable error) {
        return error instanceof CompletionException && error.getCause() != null ? error.getCause() : error;
    }

    private record Named(String name, JsonNode answer) {}

    /** Asks by one name after the other as long as the service knows no such table. */
    private CompletableFuture<Named> answer(List<String> names, int at, ObjectNode session, ObjectNode content) {
        String name = names.get(at);
        return send(request(name, known.get(names.getFirst()), session, content), ANSWER_BYTES).thenCompose(response -> {
            if (response.statusCode() == 404 && at + 1 < names.size()) {
                return answer(names, at + 1, session, content);
            }
            if (response.statusCode() == 404) {
                // Its configuration may have changed; the next scan asks by all names again.
                known.remove(names.getFirst());
            }
            if (response.statusCode() != 200) {
                throw refused(response);
            }
            return CompletableFuture.completedFuture(new Named(name, parsed(response.body())));
        });
    }

    private HttpRequest request(String name, Known last, ObjectNode session, ObjectNode content) {
        ObjectNode body = mapper.createObjectNode();
        body.put("table", name);
        body.set("session", session);
        body.putObject("predicate").put("form", "engine").set("content", content);
        if (last != null && keys.has(last.snapshotId())) {
            body.put("known_snapshot", last.snapshotId());
        }
        byte[] bytes;
        try {
            bytes = mapper.writeValueAsBytes(body);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
        if (bytes.length > BODY_BYTES) {
            throw new PlannerError("the predicate is too large", bytes.length + " bytes");
        }
        return to("/v1/plan")
                .header("Content-Type", "application/json")
                .POST(HttpRequest.BodyPublishers.ofByteArray(bytes))
                .build();
    }

    private CompletableFuture<Answer> dropped(String table, Named named, long asked, Placement placement) {
        JsonNode answer = named.answer();
        String snapshotId = text(answer, "snapshot_id");
        int total = answer.path("total").asInt(-1);
        int kept = answer.path("kept").asInt(-1);
        if (total < 0 || total > SLICES) {
            throw new PlannerError("the service's answer cannot be used", "total is " + answer.path("total"));
        }
        long looked = asked - (long) Math.ceil(Math.max(0, answer.path("staleness_ms").asDouble(0)));
        BitSet drop = bits(answer, total);
        if (drop.length() > total || drop.cardinality() != total - kept) {
            throw new PlannerError("the service's answer cannot be used", "drop, kept and total do not agree");
        }
        String summary = "plan " + text(answer, "plan_id") + " kept " + kept + " of " + total + " files";
        return keys(snapshotId, answer.path("keys"), total).thenApply(found -> {
            if (known.size() >= KNOWN_TABLES) {
                known.clear();
            }
            known.put(table, new Known(named.name(), snapshotId));
            return new Answer(new Dropped(found, drop, looked, placement), System.currentTimeMillis() - asked, summary);
        });
    }

    /** The keys of a snapshot: known already, inside the answer, or asked for. */
    private CompletableFuture<SnapshotKeys> keys(String snapshotId, JsonNode inline, int total) {
        Optional<SnapshotKeys> cached = keys.get(snapshotId);
        if (cached.isPresent() && inline.isNull()) {
            return CompletableFuture.completedFuture(checked(cached.get(), total));
        }
        if (inline.isTextual()) {
            return CompletableFuture.completedFuture(kept(snapshotId, base64(inline), total));
        }
        String path = "/v1/snapshots/" + URLEncoder.encode(snapshotId, StandardCharsets.UTF_8) + "/keys";
        return send(to(path).GET().build(), (long) total * SnapshotKeys.BYTES).thenApply(response -> {
            if (response.statusCode() != 200) {
                throw refused(response);
            }
            return kept(snapshotId, response.body(), total);
        });
    }

    private SnapshotKeys kept(String snapshotId, byte[] bytes, int total) {
        if (bytes.length != (long) total * SnapshotKeys.BYTES) {
            throw new PlannerError("the service's answer cannot be used", bytes.length + " bytes of keys for " + total);
        }
        SnapshotKeys made = new SnapshotKeys(snapshotId, bytes);
        keys.put(made);
        return made;
    }

    private static SnapshotKeys checked(SnapshotKeys found, int total) {
        if (found.count() != total) {
            throw new PlannerError("the service's answer cannot be used", "a snapshot has changed its size");
        }
        return found;
    }

    private static BitSet bits(JsonNode answer, int total) {
        byte[] packed = base64(answer.path("drop"));
        byte[] bits = new byte[(total + 7) / 8];
        Inflater inflater = new Inflater();
        try {
            inflater.setInput(packed);
            int size = inflater.inflate(bits);
            // One byte too many shows that there are more; an empty set is finished by its next step.
            int more = inflater.finished() ? 0 : inflater.inflate(new byte[1]);
            if (size != bits.length || more != 0 || !inflater.finished()) {
                throw new PlannerError("the service's answer cannot be used", "drop does not have a bit for each slice");
            }
        } catch (DataFormatException error) {
            throw new PlannerError("the service's answer cannot be used", "drop cannot be unpacked");
        } finally {
            inflater.end();
        }
        return BitSet.valueOf(bits);
    }

    private static byte[] base64(JsonNode node) {
        try {
            return Base64.getDecoder().decode(node.asText(""));
        } catch (IllegalArgumentException error) {
            throw new PlannerError("the service's answer cannot be used", "not base64");
        }
    }

    private static String text(JsonNode answer, String key) {
        JsonNode found = answer.path(key);
        if (!found.isTextual() || found.asText().length() > 1000) {
            throw new PlannerError("the service's answer cannot be used", key + " is missing");
        }
        return found.asText();
    }

    private JsonNode parsed(byte[] body) {
        try {
            return mapper.readTree(body);
        } catch (IOException error) {
            throw new PlannerError("the service's answer cannot be used", "not JSON");
        }
    }

    /** The answer; asked for once more where a connection that was kept open turns out to be lost. */
    private CompletableFuture<HttpResponse<byte[]>> send(HttpRequest request, long bytes) {
        return exchanged(request, bytes)
                .exceptionallyCompose(error -> lostConnection(error)
                        ? exchanged(request, bytes)
                        : CompletableFuture.failedFuture(error));
    }

    private static boolean lostConnection(Throwable error) {
        Throwable cause = cause(error);
        return cause instanceof IOException
                && !(cause instanceof HttpTimeoutException)
                && !(cause instanceof ConnectException);
    }

    /** The answer, whole and in time; the request's own time-out ends with the answer's first bytes. */
    private CompletableFuture<HttpResponse<byte[]>> exchanged(HttpRequest request, long bytes) {
        CompletableFuture<HttpResponse<byte[]>> exchange = http.sendAsync(request, BoundedBody.upTo(Math.max(bytes, 4096)));
        return exchange.thenApply(Function.identity())
                .orTimeout(settings.timeout().toMillis(), TimeUnit.MILLISECONDS)
                .whenComplete((answer, error) -> exchange.cancel(true));
    }

    private HttpRequest.Builder to(String path) {
        HttpRequest.Builder builder =
                HttpRequest.newBuilder(settings.url().resolve(settings.url().getPath() + path)).timeout(settings.timeout());
        // RFC 7240: how long the service may let it wait for its turn.
        builder.header("Prefer", "wait=" + settings.timeout().toSeconds());
        settings.token().ifPresent(token -> builder.header("Authorization", "Bearer " + token));
        return builder;
    }

    /** The status says enough to count by; the sentence of the service goes to the log, shortened. */
    private PlannerError refused(HttpResponse<byte[]> response) {
        String detail;
        try {
            detail = mapper.readTree(response.body()).path("error").asText("");
        } catch (IOException error) {
            detail = "";
        }
        String sentence = detail.substring(0, Math.min(detail.length(), 300)).replaceAll("\\p{Cntrl}", " ");
        return new PlannerError("the service answers " + response.statusCode(), sentence);
    }

    @Override
    public void close() {
        http.shutdownNow();
    }
}
