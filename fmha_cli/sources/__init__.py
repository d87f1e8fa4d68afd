"""Third-party sources that kernels are built from: pinned, fetched from the package index, verified, unpacked.

Pins are data: ``arch_specs/_sources.json`` holds file name, length and SHA-256 of each archive, the files of it that are kept, and a digest over
those files.

- Origin: the package index of pip's own configuration, its ``PIP_*`` variables, and netrc. An index may be a folder. Passwords in addresses are used
  and never printed. Without pip, only the variables count.
- Checks: length and SHA-256 of the archive before it is unpacked, and the digest of the unpacked files. Where the server supports HTTP ranges, only
  the needed members of a wheel are read; their CRCs and the digest of the kept files are checked.
- Refused: names that leave the folder, links and devices among the kept files, duplicate files, more files or bytes than pinned.
- Failures leave nothing behind: a source is unpacked under ``tmp/`` of the cache and renamed when it is complete. Each use checks it against its pin, and
  a damaged source is fetched again.
"""
