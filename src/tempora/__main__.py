from tempora.cli import main

main()
