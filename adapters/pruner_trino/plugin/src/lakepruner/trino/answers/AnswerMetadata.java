package lakepruner.trino.answers;

import io.trino.spi.connector.ColumnHandle;
import io.trino.spi.connector.ColumnMetadata;
import io.trino.spi.connector.ConnectorMetadata;
import io.trino.spi.connector.ConnectorSession;
import io.trino.spi.connector.ConnectorTableHandle;
import io.trino.spi.connector.ConnectorTableProperties;
import io.trino.spi.statistics.Estimate;
import io.trino.spi.statistics.TableStatistics;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** What the optimizer is told of an {@link Answer}: nothing can be pushed into it, and it has one row. */
public final class AnswerMetadata implements ConnectorMetadata {
    private static final AnswerMetadata SELF = new AnswerMetadata();

    /** Questions about the table that was asked about, which the wrapped connector answers. */
    private static final Set<String> OF_THE_TABLE =
            Set.of("getTableName", "getTableSchema", "getTableMetadata", "getInfo", "validateScan");

    private AnswerMetadata() {}

    /** Passes a call on: to the wrapped connector with its own handles in place of answers, or to this class. */
    @FunctionalInterface
    public interface Call {
        Object with(Object[] arguments) throws Throwable;
    }

    /** A call of which arguments may be answers. */
    public static Object called(Method method, Object[] arguments, Call wrapped) throws Throwable {
        boolean isOfAnswer = false;
        boolean isOfColumn = false;
        Object[] own = arguments.clone();
        for (int at = 0; at < own.length; at++) {
            isOfAnswer |= own[at] instanceof Answer;
            isOfColumn |= own[at] instanceof AnswerColumn;
            own[at] = source(own[at]);
        }
        boolean isOfOwnColumn = method.getName().equals("getColumnMetadata") && !isOfColumn;
        if (!isOfAnswer || isOfOwnColumn || OF_THE_TABLE.contains(method.getName())) {
            return wrapped.with(own);
        }
        try {
            return method.invoke(SELF, arguments);
        } catch (InvocationTargetException error) {
            throw error.getCause();
        }
    }

    /** Lists are the tables that a statement reads, which a connector is told when it has written another. */
    private static Object source(Object argument) {
        if (argument instanceof Answer answer) {
            return answer.source();
        }
        if (argument instanceof List<?> list && list.stream().anyMatch(Answer.class::isInstance)) {
            List<Object> sources = new ArrayList<>();
            list.forEach(each -> sources.add(source(each)));
            return sources;
        }
        return argument;
    }

    @Override
    public Map<String, ColumnHandle> getColumnHandles(ConnectorSession session, ConnectorTableHandle table) {
        Map<String, ColumnHandle> found = new LinkedHashMap<>();
        ((Answer) table).columns().forEach(column -> found.put(column.name(), column));
        return found;
    }

    @Override
    public ColumnMetadata getColumnMetadata(ConnectorSession session, ConnectorTableHandle table, ColumnHandle column) {
        AnswerColumn found = (AnswerColumn) column;
        return new ColumnMetadata(found.name(), found.type());
    }

    @Override
    public ConnectorTableProperties getTableProperties(ConnectorSession session, ConnectorTableHandle table) {
        return new ConnectorTableProperties();
    }

    @Override
    public TableStatistics getTableStatistics(ConnectorSession session, ConnectorTableHandle table) {
        return TableStatistics.builder().setRowCount(Estimate.of(1)).build();
    }
}
