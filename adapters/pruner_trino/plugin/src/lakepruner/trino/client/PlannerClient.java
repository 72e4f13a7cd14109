package lakepruner.trino.client;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.URLEncoder;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.net.http.HttpTimeoutException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.BitSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.zip.DataFormatException;
import java.util.zip.Inflater;
import lakepruner.trino.client.Batch.Named;
import lakepruner.trino.files.Dropped;
import lakepruner.trino.files.KeyCache;
import lakepruner.trino.files.Placement;
import lakepruner.trino.files.SnapshotKeys;

/** Asks the service for plans, without holding a thread while it waits. */
public final class PlannerClient implements AutoCloseable {
    /** The service takes bodies up to 4 MiB. */
    private static final int BODY_BYTES = 4 * 1024 * 1024 - 4096;

    /** As many as the keys of one snapshot may be kept of; an answer that says more is not believed. */
    private static final int SLICES = KeyCache.SLICES;

    /** An answer has at most a bit for each slice, the keys of few, and reasons. */
    private static final long ANSWER_BYTES = 16 * 1024 * 1024;

    private static final int KNOWN_TABLES = 10_000;

    /** An answer that is a refusal may be longer than the keys of few slices. */
    private static final long LEAST_BYTES = 4096;

    private static final int UNKNOWN = 404;
    private static final int NO_METHOD = 405;

    private static final String PLAN = "/v1/plan";
    private static final String ANSWERS = "/v1/answers";
    private static final ObjectNode NOTHING = JsonNodeFactory.instance.objectNode();

    /** So long a service that takes one scan at a time is asked so. */
    private static final long APART_NANOS = TimeUnit.MINUTES.toNanos(5);

    private final ObjectMapper mapper = new ObjectMapper();
    private final Settings settings;
    private final Exchange exchange;
    private final KeyCache keys = new KeyCache();
    private final Pause pause;
    private final Map<String, Known> known = new ConcurrentHashMap<>();
    private volatile long apartUntil;

    /** The name by which the service knew a table, and the snapshot that it was planned on last. */
    private record Known(String name, String snapshotId) {}

    /**
     * A plan.
     *
     * @param millis that the scan waited for it
     */
    public record Answer(Dropped dropped, long millis, String summary) {}

    public PlannerClient(Settings settings) {
        this.settings = settings;
        this.pause = new Pause(settings.pause());
        this.exchange = new Exchange(settings);
    }

    /** Plans the scans of one query, with one request where it can; a plan that is not there in time has failed. */
    public List<CompletableFuture<Answer>> plans(List<Question> questions) {
        if (!pause.allows()) {
            return questions.stream()
                    .map(question -> CompletableFuture.<Answer>failedFuture(
                            new PlannerError("the service took too long lately", "it is not asked for a while")))
                    .toList();
        }
        long asked = System.currentTimeMillis();
        long deadline = exchange.deadline();
        List<CompletableFuture<Named>> named = questions.size() == 1 || isAskedApart()
                ? questions.stream().map(question -> alone(question, deadline)).toList()
                : together(questions, deadline);
        List<CompletableFuture<Answer>> answers = new ArrayList<>();
        for (int at = 0; at < questions.size(); at++) {
            Question question = questions.get(at);
            answers.add(named.get(at)
                    .thenCompose(answer -> dropped(question, answer, asked, deadline))
                    .orTimeout(settings.timeout().toMillis(), TimeUnit.MILLISECONDS)
                    .whenComplete((answer, error) -> heeded(error)));
        }
        return answers;
    }

    /**
     * What the service says of a scan beside its plan; waits for it. Empty where it does not know the table, or has no answers.
     *
     * @param wanted what is asked about the scan's rows
     */
    public Optional<JsonNode> told(Question question, ObjectNode wanted) {
        if (!pause.allows()) {
            throw new PlannerError("the service took too long lately", "it is not asked for a while");
        }
        CompletableFuture<Named> answer = CompletableFuture.completedFuture(likeliest(question))
                .thenCompose(at -> answer(ANSWERS, question, wanted, at, exchange.deadline()))
                .orTimeout(settings.timeout().toMillis(), TimeUnit.MILLISECONDS);
        try {
            Named told = answer.get();
            heeded(null);
            known.putIfAbsent(question.table(), new Known(told.name(), ""));
            return Optional.of(told.answer());
        } catch (ExecutionException error) {
            Throwable cause = Exchange.cause(error.getCause());
            heeded(cause);
            if (cause instanceof PlannerError refused && refused.isUnknown()) {
                return Optional.empty();
            }
            throw new PlannerError(PlannerError.reason(cause), String.valueOf(cause.getMessage()));
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            answer.cancel(true);
            throw new PlannerError("the query was cancelled", "nothing is asked for it");
        }
    }

    /** Where a scan goes on once its plan is there. */
    public Executor threads() {
        return exchange.threads();
    }

    private void heeded(Throwable error) {
        if (error != null && tookTooLong(Exchange.cause(error))) {
            pause.begin();
        } else {
            pause.over();
        }
    }

    private static boolean tookTooLong(Throwable cause) {
        return cause instanceof TimeoutException || cause instanceof HttpTimeoutException;
    }

    private boolean isAskedApart() {
        return apartUntil != 0 && System.nanoTime() - apartUntil < 0;
    }

    /** What goes wrong before the request is sent belongs into the future as well: it must not fail the query. */
    private CompletableFuture<Named> alone(Question question, long deadline) {
        return CompletableFuture.completedFuture(likeliest(question)).thenCompose(at -> answer(PLAN, question, NOTHING, at, deadline));
    }

    /** The place of the name by which the service knew the table last. */
    private int likeliest(Question question) {
        Known last = known.get(question.table());
        return last == null ? 0 : Math.max(0, question.names().indexOf(last.name()));
    }

    /** Asks by one name after the other as long as the service knows no such table. */
    private CompletableFuture<Named> answer(String path, Question question, ObjectNode wanted, int at, long deadline) {
        ObjectNode body = asked(question, at).setAll(wanted);
        if (path.equals(ANSWERS)) {
            body.remove("known_snapshot");
        }
        HttpRequest.Builder request = posted(path, bytes(body));
        return exchange.send(request, BoundedBody.upTo(ANSWER_BYTES), deadline).thenCompose(response -> {
            if (response.statusCode() == UNKNOWN) {
                return byNextName(path, question, wanted, at, deadline, refused(response));
            }
            if (response.statusCode() != 200) {
                throw refused(response);
            }
            return CompletableFuture.completedFuture(new Named(question.names().get(at), parsed(response.body())));
        });
    }

    private CompletableFuture<Named> byNextName(
            String path, Question question, ObjectNode wanted, int at, long deadline, PlannerError refusal) {
        if (at + 1 < question.names().size()) {
            return answer(path, question, wanted, at + 1, deadline);
        }
        if (path.equals(PLAN)) {
            // Its configuration may have changed; the next scan asks by all names again.
            known.remove(question.table());
        }
        throw refusal;
    }

    /** Asks for all by the likeliest of their names; each line of the answer is taken as it comes. */
    private List<CompletableFuture<Named>> together(List<Question> questions, long deadline) {
        List<CompletableFuture<Named>> promises = new ArrayList<>();
        Batch batch = new Batch(BODY_BYTES);
        for (Question question : questions) {
            CompletableFuture<Named> promise = new CompletableFuture<>();
            promises.add(promise);
            try {
                Batch.Scanned scan = new Batch.Scanned(question, likeliest(question), promise);
                byte[] bytes = bytes(asked(question, scan.at()));
                if (!batch.takes(bytes)) {
                    send(batch, deadline);
                    batch = new Batch(BODY_BYTES);
                }
                batch.add(scan, bytes);
            } catch (RuntimeException error) {
                promise.completeExceptionally(error);
            }
        }
        send(batch, deadline);
        return promises;
    }

    private void send(Batch batch, long deadline) {
        if (batch.scans().isEmpty()) {
            return;
        }
        HttpResponse.BodyHandler<byte[]> lines = Lines.to(line -> heard(batch, parsed(line), deadline), ANSWER_BYTES);
        exchange.send(posted("/v1/plans", batch.bytes()), lines, deadline).whenComplete((response, error) -> {
            if (error != null) {
                batch.over(Exchange.cause(error));
            } else if (response.statusCode() == 200) {
                batch.over(new PlannerError("the service's answer cannot be used", "a scan is missing"));
            } else if (response.statusCode() == UNKNOWN || response.statusCode() == NO_METHOD) {
                // A service of an earlier version.
                apartUntil = System.nanoTime() + APART_NANOS;
                batch.scans().forEach(scan -> scan.follow(alone(scan.question(), deadline)));
            } else {
                batch.over(refused(response));
            }
        });
    }

    private void heard(Batch batch, JsonNode line, long deadline) {
        Batch.Scanned scan = batch.of(line);
        int status = line.path("status").asInt(0);
        if (status == 200) {
            String name = scan.question().names().get(scan.at());
            scan.promise().complete(new Named(name, line.path("plan")));
        } else if (status == UNKNOWN) {
            scan.follow(CompletableFuture.completedFuture(refused(status, line))
                    .thenCompose(refusal -> byNextName(PLAN, scan.question(), NOTHING, scan.at(), deadline, refusal)));
        } else {
            scan.promise().completeExceptionally(refused(status, line));
        }
    }

    private ObjectNode asked(Question question, int at) {
        ObjectNode body = mapper.createObjectNode();
        body.put("table", question.names().get(at));
        question.asOf().ifPresent(state -> body.put("as_of", state));
        body.set("session", question.session());
        body.putObject("predicate").put("form", "engine").set("content", question.content());
        Known last = known.get(question.table());
        if (last != null && keys.has(last.snapshotId())) {
            body.put("known_snapshot", last.snapshotId());
        }
        return body;
    }

    private byte[] bytes(ObjectNode body) {
        byte[] bytes;
        try {
            bytes = mapper.writeValueAsBytes(body);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
        if (bytes.length > BODY_BYTES) {
            throw new PlannerError("the predicate is too large", bytes.length + " bytes");
        }
        return bytes;
    }

    private HttpRequest.Builder posted(String path, byte[] body) {
        return exchange.to(path)
                .header("Content-Type", "application/json")
                .POST(HttpRequest.BodyPublishers.ofByteArray(body));
    }

    private CompletableFuture<Answer> dropped(Question question, Named named, long asked, long deadline) {
        Placement placement = Placement.of(question.content().get("columns"));
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
        return keys(snapshotId, answer.path("keys"), total, deadline).thenApply(found -> {
            if (known.size() >= KNOWN_TABLES) {
                known.clear();
            }
            known.put(question.table(), new Known(named.name(), snapshotId));
            return new Answer(new Dropped(found, drop, looked, placement), System.currentTimeMillis() - asked, summary);
        });
    }

    /** The keys of a snapshot: known already, inside the answer, or asked for. */
    private CompletableFuture<SnapshotKeys> keys(String snapshotId, JsonNode inline, int total, long deadline) {
        Optional<SnapshotKeys> cached = keys.get(snapshotId);
        if (cached.isPresent() && inline.isNull()) {
            return CompletableFuture.completedFuture(checked(cached.get(), total));
        }
        if (inline.isTextual()) {
            return CompletableFuture.completedFuture(kept(snapshotId, base64(inline), total));
        }
        String path = "/v1/snapshots/" + URLEncoder.encode(snapshotId, StandardCharsets.UTF_8) + "/keys";
        long bytes = Math.max(LEAST_BYTES, (long) total * SnapshotKeys.BYTES);
        return exchange.send(exchange.to(path).GET(), BoundedBody.upTo(bytes), deadline).thenApply(response -> {
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

    /** The status says enough to count by; the sentence of the service goes to the log, shortened. */
    private PlannerError refused(HttpResponse<byte[]> response) {
        try {
            return refused(response.statusCode(), mapper.readTree(response.body()));
        } catch (IOException error) {
            return refused(response.statusCode(), mapper.createObjectNode());
        }
    }

    private static PlannerError refused(int status, JsonNode answer) {
        String detail = answer.path("error").asText("");
        String sentence = detail.substring(0, Math.min(detail.length(), 300)).replaceAll("\\p{Cntrl}", " ");
        return PlannerError.refused(status, sentence);
    }

    @Override
    public void close() {
        exchange.close();
    }
}
