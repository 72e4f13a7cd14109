package lakepruner.trino.answers;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.trino.spi.connector.AggregateFunction;
import io.trino.spi.connector.AggregationApplicationResult;
import io.trino.spi.connector.Assignment;
import io.trino.spi.connector.ColumnHandle;
import io.trino.spi.connector.ConnectorMetadata;
import io.trino.spi.connector.ConnectorSession;
import io.trino.spi.connector.ConnectorTableHandle;
import io.trino.spi.connector.Constraint;
import io.trino.spi.connector.ConstraintApplicationResult;
import io.trino.spi.connector.SortItem;
import io.trino.spi.connector.TopNApplicationResult;
import io.trino.spi.expression.ConnectorExpression;
import io.trino.spi.expression.Variable;
import io.trino.spi.predicate.Domain;
import io.trino.spi.predicate.TupleDomain;
import io.trino.spi.type.BigintType;
import io.trino.spi.type.BooleanType;
import io.trino.spi.type.Type;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.Supplier;
import lakepruner.trino.client.Question;
import lakepruner.trino.predicates.PredicateWriter;
import lakepruner.trino.scans.Pruning;
import lakepruner.trino.scans.ScannedTable;

/**
 * Answers what the optimizer offers about scans of Iceberg tables, whose handles name a snapshot: aggregates of all rows, and
 * the first rows in an order. Declines where anything is in doubt; never fails a query.
 */
public final class Answering {
    private final Pruning pruning;
    private final Asked asked = new Asked();

    public Answering(Pruning pruning) {
        this.pruning = pruning;
    }

    /** A query that has ended. */
    public void forget(ConnectorSession session) {
        asked.forget(session.getQueryId());
    }

    /** One row in place of the scan, where metadata has all of its aggregates. */
    public Optional<AggregationApplicationResult<ConnectorTableHandle>> aggregated(
            ConnectorSession session,
            ConnectorTableHandle handle,
            Supplier<ScannedTable> scanned,
            List<AggregateFunction> functions,
            Map<String, ColumnHandle> columns,
            List<List<ColumnHandle>> groups) {
        boolean isOfAllRows = groups.stream().allMatch(List::isEmpty) && groups.size() <= 1 && !functions.isEmpty();
        // DISTINCT is a grouping without functions.
        if (!isOfAllRows) {
            return Optional.empty();
        }
        return guarded(session, handle, () -> {
            ArrayNode aggregates = JsonNodeFactory.instance.arrayNode();
            for (AggregateFunction function : functions) {
                Optional<ObjectNode> written = written(function, columns);
                if (written.isEmpty()) {
                    return Optional.empty();
                }
                aggregates.add(written.get());
            }
            Map<Asked.Key, Optional<Answer>> before = asked.answers(session.getQueryId());
            Asked.Key key = new Asked.Key(handle, aggregates);
            if (!before.containsKey(key)) {
                before.put(key, Optional.empty());
                before.put(key, answer(session, handle, scanned.get(), functions, aggregates));
            }
            return before.get(key).map(Answering::instead);
        });
    }

    private static AggregationApplicationResult<ConnectorTableHandle> instead(Answer answer) {
        List<ConnectorExpression> projections = new ArrayList<>();
        List<Assignment> assignments = new ArrayList<>();
        for (AnswerColumn column : answer.columns()) {
            projections.add(new Variable(column.name(), column.type()));
            assignments.add(new Assignment(column.name(), column, column.type()));
        }
        return new AggregationApplicationResult<>(answer, projections, assignments, Map.of(), false);
    }

    /** An aggregate as it is asked for; empty for others than counts and extremes of columns. */
    private static Optional<ObjectNode> written(AggregateFunction function, Map<String, ColumnHandle> columns) {
        String name = function.getFunctionName();
        List<ConnectorExpression> arguments = function.getArguments();
        boolean isPlain = !function.isDistinct()
                && function.getFilter().isEmpty()
                && function.getSortItems().isEmpty();
        ObjectNode node = JsonNodeFactory.instance.objectNode().put("function", name);
        if (!isPlain || arguments.size() > 1) {
            return Optional.empty();
        }
        if (name.equals("count") && arguments.isEmpty()) {
            return Optional.of(node);
        }
        if (arguments.size() != 1 || !(arguments.getFirst() instanceof Variable variable)) {
            return Optional.empty();
        }
        Type type = variable.getType();
        boolean isExtreme = (name.equals("min") || name.equals("max"))
                && (Values.areOrdered(type) || type instanceof BooleanType)
                && function.getOutputType().equals(type);
        boolean isCount = name.equals("count") && function.getOutputType().equals(BigintType.BIGINT);
        Optional<String> column = PredicateWriter.column(columns.get(variable.getName()));
        if (column.isEmpty() || !(isExtreme || isCount)) {
            return Optional.empty();
        }
        node.putArray("column").add(column.get());
        return Optional.of(node);
    }

    private Optional<Answer> answer(
            ConnectorSession session,
            ConnectorTableHandle handle,
            ScannedTable scanned,
            List<AggregateFunction> functions,
            ArrayNode aggregates) {
        if (!isWorthAsking(scanned) || !scanned.isEnforced()) {
            return Optional.empty();
        }
        ObjectNode wanted = JsonNodeFactory.instance.objectNode();
        wanted.set("aggregates", aggregates);
        JsonNode told = told(session, scanned, wanted);
        JsonNode values = told.path("values");
        if (values.size() != functions.size()) {
            return Optional.empty();
        }
        List<AnswerColumn> columns = new ArrayList<>();
        for (int at = 0; at < functions.size(); at++) {
            Type type = functions.get(at).getOutputType();
            boolean isNull = values.get(at).path("value").isNull();
            Optional<String> text = Values.text(type, values.get(at));
            if (text.isEmpty() && !(isNull && !functions.get(at).getFunctionName().equals("count"))) {
                return Optional.empty();
            }
            String name = functions.get(at).getFunctionName() + "_" + at;
            columns.add(new AnswerColumn(name, type, text.orElse(null)));
        }
        pruning.answered();
        String table = scanned.schema() + "." + scanned.table();
        return Optional.of(new Answer(handle, List.copyOf(columns), table, told.path("told").asText("")));
    }

    /** A scan of the rows alone that can be among the first; the order and the limit stay Trino's. */
    public Optional<TopNApplicationResult<ConnectorTableHandle>> limited(
            ConnectorMetadata wrapped,
            ConnectorSession session,
            ConnectorTableHandle handle,
            Supplier<ScannedTable> scanned,
            long rows,
            List<SortItem> order,
            Map<String, ColumnHandle> columns) {
        return guarded(session, handle, () -> {
            SortItem first = order.getFirst();
            ColumnHandle column = columns.get(first.getName());
            Map<Asked.Key, Optional<ConnectorTableHandle>> before = asked.limits(session.getQueryId());
            Asked.Key key = new Asked.Key(handle, List.of(rows, first.getSortOrder(), column));
            if (!before.containsKey(key)) {
                before.put(key, Optional.empty());
                Optional<ConnectorTableHandle> found =
                        narrowed(wrapped, session, handle, scanned.get(), rows, first, column);
                // The same order over the narrowed scan gains nothing more, and is offered next.
                found.ifPresent(narrow -> before.put(new Asked.Key(narrow, key.offer()), Optional.empty()));
                before.put(key, found);
            }
            return before.get(key).map(narrow -> new TopNApplicationResult<>(narrow, false, false));
        });
    }

    private Optional<ConnectorTableHandle> narrowed(
            ConnectorMetadata wrapped,
            ConnectorSession session,
            ConnectorTableHandle handle,
            ScannedTable scanned,
            long rows,
            SortItem first,
            ColumnHandle column) {
        Optional<String> name = PredicateWriter.column(column);
        Type type = PredicateWriter.type(column);
        boolean isAsked = name.isPresent()
                && Values.areOrdered(type)
                && rows > 0
                && rows <= Integer.MAX_VALUE
                && isWorthAsking(scanned)
                // A condition of this plugin's own must not pass for the one on a partition that is asked of people.
                && !session.getProperty("query_partition_filter_required", Boolean.class);
        if (!isAsked) {
            return Optional.empty();
        }
        boolean ascending = first.getSortOrder().isAscending();
        ObjectNode wanted = JsonNodeFactory.instance.objectNode();
        ObjectNode limit = wanted.putObject("first").put("rows", rows).put("descending", !ascending);
        limit.put("nulls_first", first.getSortOrder().isNullsFirst()).putArray("column").add(name.get());
        Optional<String> threshold = Values.text(type, told(session, scanned, wanted).path("threshold"));
        if (threshold.isEmpty()) {
            return Optional.empty();
        }
        Domain domain = Threshold.domain(type, threshold.get(), first.getSortOrder());
        pruning.answered();
        return wrapped.applyFilter(session, handle, new Constraint(TupleDomain.withColumnDomains(Map.of(column, domain))))
                .map(ConstraintApplicationResult::getHandle);
    }

    /** A few files are read in the time of a question. */
    private boolean isWorthAsking(ScannedTable scanned) {
        return scanned.isRowsOfSnapshot()
                && scanned.files().get().orElse(Long.MAX_VALUE) >= pruning.settings().answerMinFiles();
    }

    private JsonNode told(ConnectorSession session, ScannedTable scanned, ObjectNode wanted) {
        List<String> names = scanned.names(pruning.settings().catalog());
        if (asked.isUnknown(names.getFirst())) {
            return JsonNodeFactory.instance.objectNode();
        }
        List<TupleDomain<ColumnHandle>> domains =
                scanned.domains().stream().filter(domain -> !domain.isAll()).toList();
        // Rows are counted by it: one that holds for more rows than the scan's would do for pruning alone.
        Optional<ObjectNode> content = PredicateWriter.exact(pruning.name(), domains);
        if (content.isEmpty()) {
            return JsonNodeFactory.instance.objectNode();
        }
        ObjectNode rules = pruning.session(session.getTimeZoneKey().getId(), true);
        Question question = new Question(names, scanned.asOf(), rules, content.get());
        Optional<JsonNode> told = pruning.planner().told(question, wanted);
        if (told.isEmpty()) {
            asked.setUnknown(names.getFirst());
        }
        return told.orElseGet(JsonNodeFactory.instance::objectNode);
    }

    private <T> Optional<T> guarded(ConnectorSession session, ConnectorTableHandle handle, Supplier<Optional<T>> work) {
        try {
            return session.getProperty(Pruning.SWITCH, Boolean.class) ? work.get() : Optional.empty();
        } catch (RuntimeException | LinkageError error) {
            pruning.unanswered(String.valueOf(handle), error);
            return Optional.empty();
        }
    }
}
