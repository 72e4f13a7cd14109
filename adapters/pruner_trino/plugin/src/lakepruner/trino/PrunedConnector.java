package lakepruner.trino;

import io.trino.spi.connector.Connector;
import io.trino.spi.connector.ConnectorMetadata;
import io.trino.spi.connector.ConnectorPageSourceProviderFactory;
import io.trino.spi.connector.ConnectorSplitManager;
import io.trino.spi.connector.ConnectorTransactionHandle;
import io.trino.spi.session.PropertyMetadata;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.List;
import lakepruner.trino.answers.Answering;
import lakepruner.trino.reflection.Forwarding;
import lakepruner.trino.scans.Pruning;

/** A connector whose splits are filtered and whose sessions can switch that off. */
final class PrunedConnector extends Forwarding<Connector> {
    private final Pruning pruning;

    /** Only Iceberg's handles name the snapshot that an answer would be of. */
    private final boolean answers;

    private final Answering answering;

    private PrunedConnector(Connector wrapped, Pruning pruning) {
        super(wrapped);
        this.pruning = pruning;
        this.answers = pruning.name().equals("iceberg");
        this.answering = new Answering(pruning);
    }

    static Connector over(Connector wrapped, Pruning pruning) {
        return new PrunedConnector(wrapped, pruning).as(Connector.class);
    }

    @Override
    protected Object call(Method method, Object[] arguments) throws Throwable {
        Object result = forward(method, arguments);
        return switch (method.getName()) {
            case "getSplitManager" -> PrunedSplitManager.over((ConnectorSplitManager) result, wrapped, pruning);
            case "getMetadata" ->
                answers
                        ? PrunedMetadata.over(
                                (ConnectorMetadata) result,
                                wrapped,
                                (ConnectorTransactionHandle) arguments[1],
                                answering)
                        : result;
            case "getPageSourceProviderFactory" ->
                answers ? PrunedPageSources.Factory.over((ConnectorPageSourceProviderFactory) result) : result;
            case "getSessionProperties" -> withSwitch((List<?>) result);
            case "shutdown" -> {
                pruning.close();
                yield result;
            }
            default -> result;
        };
    }

    private List<Object> withSwitch(List<?> properties) {
        List<Object> all = new ArrayList<>(properties);
        all.add(PropertyMetadata.booleanProperty(
                Pruning.SWITCH, "Leave out files that hold no matching row", pruning.settings().enabled(), false));
        return all;
    }
}
