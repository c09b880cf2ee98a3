package io.txns.iceberg.simulation;

import java.lang.invoke.CallSite;
import java.lang.invoke.ConstantCallSite;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.security.SecureRandom;
import java.time.Instant;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.Map;
import java.util.Objects;
import java.util.Random;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import java.util.stream.Collector;
import java.util.stream.Collectors;

/**
 * What rewritten classes call in the place of the JDK's methods of the same names.
 *
 * <p>Public, and with the JDK's own descriptors, since other packages' byte code names them.
 */
@SuppressWarnings("unused")
public final class Replacements {
  private Replacements() {}

  // ------------------------------------------------------------ time and randomness

  public static long currentTimeMillis() {
    return SimulatedThread.current().nowMs();
  }

  public static long nanoTime() {
    return TimeUnit.MILLISECONDS.toNanos(SimulatedThread.current().elapsedMs());
  }

  public static Instant now() {
    return Instant.ofEpochMilli(currentTimeMillis());
  }

  public static void sleep(long ms) {
    SimulatedThread.current().sleep(ms);
  }

  public static void sleep(TimeUnit unit, long duration) {
    sleep(unit.toMillis(duration));
  }

  /** In the place of a sleep that waits for other threads. */
  public static void pass(long ms) {}

  public static Random random() {
    return SimulatedThread.current().random();
  }

  public static void nextBytes(SecureRandom secure, byte[] bytes) {
    random().nextBytes(bytes);
  }

  public static UUID randomUUID() {
    Random random = random();
    long high = (random.nextLong() & ~0xF000L) | 0x4000L;
    long low = (random.nextLong() & 0x3FFFFFFFFFFFFFFFL) | 0x8000000000000000L;
    return new UUID(high, low);
  }

  // ------------------------------------------------------------ threads

  public static void enter(Object monitor) {
    SimulatedThread thread = SimulatedThread.current();
    thread.process().monitors().enter(thread, monitor);
  }

  public static void exit(Object monitor) {
    SimulatedThread thread = SimulatedThread.current();
    thread.process().monitors().exit(thread, monitor);
  }

  public static void wait(Object monitor) {
    SimulatedThread thread = SimulatedThread.current();
    thread.process().monitors().await(thread, monitor);
  }

  public static void notify(Object monitor) {
    notifyAll(monitor);
  }

  public static void notifyAll(Object monitor) {
    SimulatedThread thread = SimulatedThread.current();
    thread.process().monitors().giveNotice(thread, monitor);
  }

  public static ExecutorService newFixedThreadPool(int threads) {
    return new ImmediateExecutor();
  }

  public static ExecutorService newFixedThreadPool(int threads, ThreadFactory factory) {
    return new ImmediateExecutor();
  }

  public static ExecutorService newCachedThreadPool() {
    return new ImmediateExecutor();
  }

  public static ExecutorService newCachedThreadPool(ThreadFactory factory) {
    return new ImmediateExecutor();
  }

  public static ExecutorService newSingleThreadExecutor() {
    return new ImmediateExecutor();
  }

  public static ExecutorService newSingleThreadExecutor(ThreadFactory factory) {
    return new ImmediateExecutor();
  }

  public static ScheduledExecutorService newScheduledThreadPool(int threads) {
    return new ImmediateExecutor();
  }

  public static ScheduledExecutorService newScheduledThreadPool(
      int threads, ThreadFactory factory) {
    return new ImmediateExecutor();
  }

  public static ScheduledExecutorService newSingleThreadScheduledExecutor() {
    return new ImmediateExecutor();
  }

  public static ScheduledExecutorService newSingleThreadScheduledExecutor(ThreadFactory factory) {
    return new ImmediateExecutor();
  }

  // ------------------------------------------------------------ payloads

  /** What payloads may have to stand in their entry, where the core says {@code bytes}. */
  public static int inlineMaxBytes(int bytes) {
    return SimulatedThread.current().process().payloadsInFiles() ? 0 : bytes;
  }

  // ------------------------------------------------------------ sets and maps in order

  /** Links {@code Set.of} and {@code Map.of} of any number of arguments. */
  public static CallSite collecting(MethodHandles.Lookup caller, String name, MethodType type)
      throws ReflectiveOperationException {
    Class<?> made = type.returnType();
    MethodHandle collect =
        MethodHandles.lookup()
            .findStatic(
                Replacements.class,
                made == Set.class ? "setOf" : "mapOf",
                MethodType.methodType(made, Object[].class));
    boolean isArray = type.parameterCount() == 1 && type.parameterType(0) == Object[].class;
    MethodHandle given =
        isArray ? collect : collect.asCollector(Object[].class, type.parameterCount());
    return new ConstantCallSite(given.asType(type));
  }

  public static Set<Object> setOf(Object[] elements) {
    Set<Object> set = new LinkedHashSet<>();
    for (Object element : elements) {
      if (!set.add(Objects.requireNonNull(element))) {
        throw new IllegalArgumentException("duplicate element: " + element);
      }
    }
    return Collections.unmodifiableSet(set);
  }

  public static Map<Object, Object> mapOf(Object[] keysAndValues) {
    Map<Object, Object> map = new LinkedHashMap<>();
    for (int i = 0; i < keysAndValues.length; i += 2) {
      put(map, keysAndValues[i], keysAndValues[i + 1]);
    }
    return Collections.unmodifiableMap(map);
  }

  @SafeVarargs
  @SuppressWarnings("varargs")
  public static <K, V> Map<K, V> ofEntries(Map.Entry<? extends K, ? extends V>... entries) {
    Map<K, V> map = new LinkedHashMap<>();
    Arrays.stream(entries).forEach(entry -> put(map, entry.getKey(), entry.getValue()));
    return Collections.unmodifiableMap(map);
  }

  public static <E> Set<E> copyOf(Collection<? extends E> elements) {
    elements.forEach(Objects::requireNonNull);
    return Collections.unmodifiableSet(new LinkedHashSet<>(elements));
  }

  public static <K, V> Map<K, V> copyOf(Map<? extends K, ? extends V> entries) {
    Map<K, V> map = new LinkedHashMap<>();
    entries.forEach((key, value) -> put(map, key, value));
    return Collections.unmodifiableMap(map);
  }

  public static <T> Collector<T, ?, Set<T>> toUnmodifiableSet() {
    return Collectors.collectingAndThen(
        Collectors.<T, Set<T>>toCollection(LinkedHashSet::new), Collections::unmodifiableSet);
  }

  public static <T, K, V> Collector<T, ?, Map<K, V>> toUnmodifiableMap(
      Function<? super T, ? extends K> key, Function<? super T, ? extends V> value) {
    return Collector.<T, Map<K, V>, Map<K, V>>of(
        LinkedHashMap::new,
        (map, element) -> put(map, key.apply(element), value.apply(element)),
        (one, other) -> {
          throw new IllegalStateException("streams are not parallel here");
        },
        Collections::unmodifiableMap);
  }

  private static <K, V> void put(Map<K, V> map, K key, V value) {
    if (map.put(Objects.requireNonNull(key), Objects.requireNonNull(value)) != null) {
      throw new IllegalArgumentException("duplicate key: " + key);
    }
  }
}
