package lakepruner.trino;

import io.trino.spi.connector.Connector;
import io.trino.spi.connector.ConnectorSplitManager;
import io.trino.spi.session.PropertyMetadata;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.List;
import lakepruner.trino.reflection.Forwarding;
import lakepruner.trino.scans.Pruning;

/** A connector whose splits are filtered and whose sessions can switch that off. */
final class PrunedConnector extends Forwarding<Connector> {
    private final Pruning pruning;

    private PrunedConnector(Connector wrapped, Pruning pruning) {
        super(wrapped);
        this.pruning = pruning;
    }

    static Connector over(Connector wrapped, Pruning pruning) {
        return new PrunedConnector(wrapped, pruning).as(Connector.class);
    }

    @Override
    protected Object call(Method method, Object[] arguments) throws Throwable {
        Object result = forward(method, arguments);
        return switch (method.getName()) {
            case "getSplitManager" -> PrunedSplitManager.over((ConnectorSplitManager) result, wrapped, pruning);
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
