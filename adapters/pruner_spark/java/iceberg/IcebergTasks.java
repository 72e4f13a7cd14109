package pruner.spark.iceberg;

import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.FileStatusWithMetadata;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;
import pruner.spark.indexes.Listed;
import pruner.spark.scans.Predicates;
import pruner.spark.scans.Pruning;
import pruner.spark.statements.Sources;
import scala.collection.Iterator;

/**
 * The files that Iceberg has planned for a scan, with their deletes. Iceberg's classes are not public, and may be
 * absent where this is compiled: they are called by reflection, and where one is not as expected, the scan stays
 * unpruned.
 */
public final class IcebergTasks implements Listed {
  private static final String SCAN = "org.apache.iceberg.spark.source.SparkBatchQueryScan";

  /** A scan that Iceberg itself answers from its metadata: no files are read. */
  private static final String ANSWERED = "org.apache.iceberg.spark.source.SparkLocalScan";

  private static final String DELETED = "_deleted";

  private final ClassLoader classes;
  private final List tasks;
  private final List places = new ArrayList();

  private IcebergTasks(ClassLoader classes, List tasks) {
    this.classes = classes;
    this.tasks = tasks;
  }

  /** The tasks kept for a predicate, and all tasks of the scan; or all tasks, where two predicates share the scan. */
  private static final class Planned extends ArrayList {
    private final List all;
    private final Expression predicate;
    private final boolean shared;

    Planned(List kept, List all, Expression predicate) {
      super(kept);
      this.all = all;
      this.predicate = predicate;
      shared = false;
    }

    Planned(List all) {
      super(all);
      this.all = all;
      predicate = null;
      shared = true;
    }

    boolean isFor(Expression other) {
      return predicate == null || other == null
          ? predicate == other
          : predicate.canonicalized().equals(other.canonicalized());
    }
  }

  /** The files of a scan of a snapshot, none for one that metadata answers; null for others, and where this fails. */
  public static IcebergTasks of(Object scan) {
    try {
      ClassLoader classes = scan.getClass().getClassLoader();
      if (scan.getClass().getName().equals(ANSWERED)) {
        return new IcebergTasks(classes, new ArrayList());
      }
      return scan.getClass().getName().equals(SCAN) ? new IcebergTasks(classes, (List) call(scan, "tasks")) : null;
    } catch (Throwable error) {
      return null;
    }
  }

  public int count() {
    return tasks.size();
  }

  /** The number of bytes that are read; -1 where it is unknown. */
  public long bytes() {
    try {
      Method length = classes.loadClass("org.apache.iceberg.ScanTask").getMethod("sizeBytes", new Class[0]);
      long bytes = 0L;
      for (int k = 0; k < tasks.size(); k++) {
        bytes += ((Long) length.invoke(tasks.get(k), new Object[0])).longValue();
      }
      return bytes;
    } catch (ReflectiveOperationException error) {
      return -1L;
    }
  }

  /** What the planner knows about the first rows, as JSON; null where it knows nothing, see Shortcuts. */
  public String asked(Object scan, List filters, Map question, Pruning pruning) throws Throwable {
    Map told = told(scan);
    return told == null || ((Map) told.get("ids")).containsKey(DELETED)
        ? null
        : pruning.ask(this, filters, told, question);
  }

  /** Remove from a scan the files that cannot hold a row for which the filters are true. */
  public static void prune(Object scan, List filters, Pruning pruning) throws Throwable {
    if (scan.getClass().getName().equals(ANSWERED)) {
      return;
    }
    try {
      if (scan.getClass().getName().equals(SCAN)) {
        pruned(scan, filters, pruning);
      } else {
        pruning.leave("Iceberg reads it by " + scan.getClass().getSimpleName() + ", which chooses its files by itself");
      }
    } catch (Throwable error) {
      pruning.leave("Iceberg's scan is not as expected: " + error);
    }
  }

  private static void pruned(Object scan, List filters, Pruning pruning) throws Throwable {
    List tasks = (List) call(scan, "tasks");
    Expression predicate = Predicates.all(PythonUtils.toSeq(new ArrayList()), PythonUtils.toSeq(filters));
    if (tasks instanceof Planned) {
      // Spark plans again while a query runs; where two parts of a query share a scan, neither's filter applies.
      Planned before = (Planned) tasks;
      if (!before.shared && !before.isFor(predicate)) {
        set(scan, new Planned(before.all));
      }
      return;
    }
    Map told = told(scan);
    if (told == null) {
      return;
    }
    if (((Map) told.get("ids")).containsKey(DELETED)) {
      pruning.leave("it shows rows that are deleted, of which no index tells");
      return;
    }
    IcebergTasks files = new IcebergTasks(scan.getClass().getClassLoader(), tasks);
    List kept = files.kept(pruning.prune(files, filters, told));
    Planned planned = new Planned(kept, tasks, predicate);
    if (kept.size() < tasks.size()) {
      set(scan, planned);
    } else {
      // Iceberg's groups of tasks stay unchanged.
      Field field = scan.getClass().getSuperclass().getDeclaredField("tasks");
      field.setAccessible(true);
      field.set(scan, planned);
    }
  }

  private static void set(Object scan, List tasks) throws Throwable {
    Method reset = method(scan.getClass(), "resetTasks", 1);
    Sources.made(reset, scan, new Object[] {tasks});
  }

  /** The snapshot of the files, and the ids of the columns by their names in it; null if there is no snapshot. */
  private static Map told(Object scan) throws Throwable {
    Object snapshot = call(call(scan, "scan"), "snapshot");
    if (snapshot == null) {
      return null;
    }
    Object struct = call(call(scan, "expectedSchema"), "asStruct");
    Class utility = scan.getClass().getClassLoader().loadClass("org.apache.iceberg.types.TypeUtil");
    Map ids = (Map) Sources.made(method(utility, "indexByName", 1), null, new Object[] {struct});
    Map told = new LinkedHashMap();
    told.put("pinned", call(call(scan, "table"), "uuid") + " " + call(snapshot, "snapshotId"));
    told.put("ids", new LinkedHashMap(ids));
    return told;
  }

  public $SEQ$ listed($SEQ$ partitionFilters, $SEQ$ dataFilters) {
    try {
      return PythonUtils.toSeq(directories());
    } catch (Throwable error) {
      throw new IllegalStateException(error.toString());
    }
  }

  /** One directory with each file once, however many tasks read it. */
  private List directories() throws Throwable {
    Method file = classes.loadClass("org.apache.iceberg.ContentScanTask").getMethod("file", new Class[0]);
    Class content = classes.loadClass("org.apache.iceberg.ContentFile");
    Method location = content.getMethod("location", new Class[0]);
    Method size = content.getMethod("fileSizeInBytes", new Class[0]);
    Object nothing = scala.collection.immutable.Map$.MODULE$.empty();
    Map files = new LinkedHashMap();
    for (int k = 0; k < tasks.size(); k++) {
      Object read = file.invoke(tasks.get(k), new Object[0]);
      Path path = new Path((String) location.invoke(read, new Object[0]));
      places.add(path);
      if (!files.containsKey(path)) {
        long bytes = ((Long) size.invoke(read, new Object[0])).longValue();
        FileStatus status = new FileStatus(bytes, false, 0, 0L, 0L, path);
        files.put(path, new FileStatusWithMetadata(status, (scala.collection.immutable.Map) nothing));
      }
    }
    List directories = new ArrayList();
    directories.add(new PartitionDirectory(InternalRow.empty(), PythonUtils.toSeq(new ArrayList(files.values()))));
    return directories;
  }

  /** The tasks over files that are left. */
  private List kept($SEQ$ left) {
    Set files = new HashSet();
    Iterator directories = left.iterator();
    while (directories.hasNext()) {
      Iterator each = ((PartitionDirectory) directories.next()).files().iterator();
      while (each.hasNext()) {
        files.add(((FileStatusWithMetadata) each.next()).getPath());
      }
    }
    List kept = new ArrayList();
    for (int k = 0; k < tasks.size(); k++) {
      if (files.contains(places.get(k))) {
        kept.add(tasks.get(k));
      }
    }
    return kept;
  }

  public FileIndex index() {
    return null;
  }

  public String pinned() {
    return null;
  }

  /** Calls a method without arguments, whatever its access. */
  private static Object call(Object object, String name) throws Throwable {
    return Sources.made(method(object.getClass(), name, 0), object, new Object[0]);
  }

  private static Method method(Class from, String name, int arguments) throws NoSuchMethodException {
    for (Class each = from; each != null; each = each.getSuperclass()) {
      Method[] methods = each.getDeclaredMethods();
      for (int k = 0; k < methods.length; k++) {
        if (methods[k].getName().equals(name)
            && methods[k].getParameterTypes().length == arguments
            && !methods[k].isBridge()) {
          methods[k].setAccessible(true);
          return methods[k];
        }
      }
    }
    throw new NoSuchMethodException(from.getName() + "." + name);
  }
}
