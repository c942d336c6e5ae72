// SPDX-License-Identifier: GPL-2.0-only
package metasched;

/** Generated sources: a class with methods that take a type parameter, a closure and a match. */
final class Source {
    private Source() {}

    static String java(int number, int methods) {
        StringBuilder text = new StringBuilder("import java.util.*;\nimport java.util.stream.*;\n");
        text.append("public final class Shape").append(number).append("<T extends Comparable<T>> {\n");
        text.append("    private final List<T> items = new ArrayList<>();\n");
        text.append("    record Pair<A, B>(A first, B second) {}\n");
        for (int i = 0; i < methods; i++) {
            text.append(String.format(
                    "    public Map<String, List<Pair<T, Integer>>> group%d(int base, String key) {%n"
                            + "        int sum = base;%n"
                            + "        for (T item : items) {%n"
                            + "            sum += switch (item.hashCode() %% 3) { case 0 -> %d; case 1 -> sum; "
                            + "default -> item.toString().length(); };%n"
                            + "        }%n"
                            + "        int total = sum;%n"
                            + "        return items.stream().sorted(Comparator.reverseOrder())%n"
                            + "            .map(item -> new Pair<>(item, total + item.hashCode()))%n"
                            + "            .collect(Collectors.groupingBy(pair -> key + pair.second()));%n"
                            + "    }%n",
                    i, i));
        }
        return text.append("}\n").toString();
    }

    static String scala(int number, int methods) {
        StringBuilder text = new StringBuilder();
        text.append("final class Shape").append(number).append("[T: Ordering](items: List[T]):\n");
        text.append("  case class Pair[A, B](first: A, second: B)\n");
        for (int i = 0; i < methods; i++) {
            text.append(String.format(
                    "  def group%d(base: Int, key: String): Map[String, List[Pair[T, Int]]] =%n"
                            + "    var sum = base%n"
                            + "    for item <- items do%n"
                            + "      sum += (item.hashCode %% 3 match%n"
                            + "        case 0 => %d%n"
                            + "        case 1 => sum%n"
                            + "        case _ => item.toString.length)%n"
                            + "    val total = sum%n"
                            + "    items.sorted.map(item => Pair(item, total + item.hashCode))%n"
                            + "      .groupBy(pair => key + pair.second)%n",
                    i, i));
        }
        return text.toString();
    }
}
