"""Storage: tables of records, and commits that change them at once.

``store`` is the contract of a store, and of those who take part in a commit;
``snapshot`` reads. ``format`` defines every key and value. The
package ``lmdb`` keeps a store in a directory, ``redis`` keeps one on a server.
``files`` manages the files beside it, ``system_errors`` explains errors, ``progress``
says in the log how far a long task is, ``platform`` holds everything that Linux and
macOS do differently. It uses ``errors`` only; ``filter``, ``frontier`` and ``crawl``
import it.
"""
