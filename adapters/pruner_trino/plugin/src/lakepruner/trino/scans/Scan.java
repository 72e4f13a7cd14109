package lakepruner.trino.scans;

import com.fasterxml.jackson.databind.node.ObjectNode;
import io.trino.spi.connector.ColumnHandle;
import io.trino.spi.connector.ConnectorSession;
import io.trino.spi.connector.Constraint;
import io.trino.spi.expression.ConnectorExpression;
import io.trino.spi.predicate.TupleDomain;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.IntStream;
import lakepruner.trino.client.Exchange;
import lakepruner.trino.client.PlannerClient;
import lakepruner.trino.client.PlannerError;
import lakepruner.trino.client.Question;
import lakepruner.trino.files.Dropped;
import lakepruner.trino.files.SplitFile;
import lakepruner.trino.predicates.PredicateWriter;
import lakepruner.trino.predicates.TimestampUnit;
import lakepruner.trino.reflection.Reflection;

/** One scan: asks for its plan before its first split, again when dynamic filters have more to say, and counts. */
public final class Scan {
    /** Plans of one scan, the first and four more: dynamic filters can grow with every batch, and each costs a request. */
    private static final int PLANS = 5;

    private final Pruning pruning;
    private final ScannedTable table;
    private final Constraint constraint;
    private final Object dynamicFilter;
    private final String zone;
    private final String queryId;
    private final List<String> names;
    private final AtomicLong listed = new AtomicLong();
    private final AtomicLong left = new AtomicLong();
    private final AtomicBoolean finished = new AtomicBoolean();

    /** Whether its first plan is somebody's to ask for; whoever claims it completes {@code first} in any case. */
    private final AtomicBoolean claimed = new AtomicBoolean();

    private final CompletableFuture<Dropped> first = new CompletableFuture<>();
    private CompletableFuture<Dropped> latest = first;
    private final Set<String> displaced = new HashSet<>();
    private TupleDomain<ColumnHandle> dynamic = TupleDomain.all();
    private int plans = 1;
    private volatile String report = "nothing to prune by";

    public Scan(Pruning pruning, ConnectorSession session, ScannedTable table, Constraint constraint, Object dynamicFilter) {
        this.pruning = pruning;
        this.table = table;
        this.constraint = constraint;
        this.dynamicFilter = dynamicFilter;
        this.zone = session.getTimeZoneKey().getId();
        this.queryId = session.getQueryId();
        this.names = table.names(pruning.settings().catalog());
    }

    public long dynamicFilterWaitMillis() {
        return pruning.settings().dynamicFilterWait().toMillis();
    }

    String queryId() {
        return queryId;
    }

    boolean claim() {
        return claimed.compareAndSet(false, true);
    }

    /** The files to leave out by what is known now; never fails. */
    public synchronized CompletableFuture<Dropped> plan(Object dynamicSnapshot) {
        try {
            TupleDomain<ColumnHandle> current = current(dynamicSnapshot);
            if (!claimed.get()) {
                askWithOthers(current);
            }
            if (!current.equals(dynamic)) {
                dynamic = current;
                ask();
            }
        } catch (RuntimeException | LinkageError error) {
            pruning.failed("the predicate is of a form that is not known", name(), error);
            plans = PLANS;
            if (claim()) {
                first.complete(Dropped.NOTHING);
            }
        }
        return latest;
    }

    /** Asks for the first plan, and for those of the query's scans that have not asked yet. */
    private void askWithOthers(TupleDomain<ColumnHandle> current) {
        List<Scan> together = pruning.gatherings().take(this);
        List<Scan> asking = new ArrayList<>();
        List<Question> questions = new ArrayList<>();
        for (Scan scan : together) {
            // Of the dynamic filters of others nothing is known here: they ask again when theirs have something to say.
            if (scan == this) {
                dynamic = current;
            }
            scan.firstQuestion(scan == this ? current : TupleDomain.all()).ifPresent(question -> {
                asking.add(scan);
                questions.add(question);
            });
        }
        if (questions.isEmpty()) {
            return;
        }
        List<CompletableFuture<PlannerClient.Answer>> answers = pruning.planner().plans(questions);
        for (int at = 0; at < asking.size(); at++) {
            asking.get(at).take(answers.get(at));
        }
    }

    /** What to ask for the first plan; where there is nothing, that is the plan. */
    private Optional<Question> firstQuestion(TupleDomain<ColumnHandle> current) {
        Optional<Question> question = Optional.empty();
        try {
            question = question(current, Set.of());
        } catch (RuntimeException | LinkageError error) {
            pruning.failed("the predicate is of a form that is not known", name(), error);
        }
        if (question.isEmpty()) {
            first.complete(Dropped.NOTHING);
        }
        return question;
    }

    private void take(CompletableFuture<PlannerClient.Answer> answer) {
        answer.thenApply(this::answered)
                .exceptionally(error -> {
                    failed(error);
                    return Dropped.NOTHING;
                })
                // The scan lists its files next: the plans of others must not wait for that.
                .thenAcceptAsync(first::complete, pruning.planner().threads());
    }

    /** Plans again where columns have turned out to have their values somewhere else. */
    private synchronized CompletableFuture<Dropped> planWithout(Set<String> columns) {
        if (displaced.addAll(columns)) {
            ask();
        }
        return latest;
    }

    private void ask() {
        Optional<Question> question = plans == PLANS ? Optional.empty() : question(dynamic, displaced);
        if (question.isEmpty()) {
            return;
        }
        plans++;
        CompletableFuture<Dropped> before = latest;
        latest = pruning.planner()
                .plans(List.of(question.get()))
                .getFirst()
                .thenApply(this::answered)
                .exceptionallyCompose(error -> {
                    failed(error);
                    return before;
                });
    }

    private TupleDomain<ColumnHandle> current(Object snapshot) {
        Optional<Object> found = snapshot != null
                ? Reflection.find(snapshot, "currentPredicate")
                : Reflection.find(dynamicFilter, "getCurrentPredicate");
        @SuppressWarnings("unchecked")
        TupleDomain<ColumnHandle> domain = (TupleDomain<ColumnHandle>) found.orElse(TupleDomain.all());
        return domain;
    }

    /** What the predicate asks; empty when it says nothing. */
    private Optional<Question> question(TupleDomain<ColumnHandle> current, Set<String> without) {
        List<TupleDomain<ColumnHandle>> domains = new ArrayList<>(table.domains());
        domains.add(constraint.getSummary());
        domains.add(current);
        domains.removeIf(TupleDomain::isAll);
        // Version 476 has neither the expression of a scan nor names for its columns.
        ConnectorExpression expression = constraint.getExpression();
        return new PredicateWriter(pruning.name(), constraint.getAssignments(), without)
                .content(domains.stream().distinct().toList(), expression)
                .map(content -> new Question(names, table.asOf(), session(content), content));
    }

    private ObjectNode session(ObjectNode content) {
        ObjectNode session = pruning.session(zone, table.asOf().isPresent());
        TimestampUnit.coarsest(content.get("columns")).ifPresent(unit -> session.put("timestamp_unit", unit));
        return session;
    }

    private Dropped answered(PlannerClient.Answer answer) {
        pruning.counters().planned(answer.millis());
        report = answer.summary();
        return answer.dropped();
    }

    private void failed(Throwable error) {
        Throwable cause = Exchange.cause(error);
        String reason = PlannerError.reason(cause);
        pruning.failed(reason, name(), cause);
        report = reason;
    }

    /** The splits to read of a batch; never fails. */
    public CompletableFuture<List<?>> filtered(List<?> splits, Dropped dropped) {
        listed.addAndGet(splits.size());
        if (dropped.ordinals().isEmpty()) {
            return CompletableFuture.completedFuture(splits);
        }
        try {
            List<Optional<SplitFile>> files = splits.stream().map(SplitFile::of).toList();
            Set<String> elsewhere = new HashSet<>();
            files.forEach(file -> file.map(dropped::displaced).ifPresent(elsewhere::addAll));
            CompletableFuture<Dropped> plan =
                    elsewhere.isEmpty() ? CompletableFuture.completedFuture(dropped) : planWithout(elsewhere);
            return plan.thenApply(found -> kept(splits, files, found));
        } catch (RuntimeException | LinkageError error) {
            pruning.failed("a split is of a form that is not known", name(), error);
            return CompletableFuture.completedFuture(splits);
        }
    }

    private List<?> kept(List<?> splits, List<Optional<SplitFile>> files, Dropped dropped) {
        List<?> kept = IntStream.range(0, splits.size())
                .filter(at -> files.get(at).filter(dropped::contains).isEmpty())
                .mapToObj(splits::get)
                .toList();
        left.addAndGet(splits.size() - kept.size());
        return kept;
    }

    public void finish() {
        if (finished.compareAndSet(false, true)) {
            pruning.gatherings().leave(this);
            pruning.finished(name(), listed.get(), left.get(), report);
        }
    }

    private String name() {
        return names.getFirst();
    }
}
